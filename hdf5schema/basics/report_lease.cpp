#include "hdf5schema/basics/report_lease.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <span>
#include <string_view>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kLeaseAge = 300s;
constexpr auto kSurelyYoung = 60s;  // by our own clock; where that is late, a lease is taken over later
constexpr std::size_t kLongestLease = 1024;

}  // namespace

fs::file_time_type file_time_now(const std::string& directory) {
  std::string trial = directory + "/.clock.XXXXXX";
  std::error_code error;
  ::close(::mkostemp(trial.data(), O_CLOEXEC));
  const auto time = fs::last_write_time(trial, error);
  ::unlink(trial.c_str());
  return error ? fs::file_time_type::clock::now() : time;
}

namespace {

/// A process number means something in its namespace only.
std::string pid_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? std::to_string(status.st_ino) : "";
}

ino_t inode_of(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

/// The text of the file, as far as it fits into `room`.
std::string_view read_into(std::span<char> room, const Descriptor& file) {
  const ssize_t size = file ? ::read(file.get(), room.data(), room.size()) : 0;
  return {room.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
}

Descriptor open_lease(const std::string& path) {
  return Descriptor(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
}

/// Asking a file system for its time takes three operations, so it is not asked about a lease that was just taken.
bool is_expired(const std::string& path, const Descriptor& lease) {
  struct stat status {};
  if (!lease || ::fstat(lease.get(), &status) != 0) return false;
  const auto age = std::chrono::system_clock::now() - std::chrono::system_clock::from_time_t(status.st_mtime);
  if (age < kSurelyYoung) return false;
  std::error_code error;
  const auto taken = fs::last_write_time(path, error);
  return !error && file_time_now(fs::path(path).parent_path().string()) - taken > kLeaseAge;
}

}  // namespace

ReportLease::~ReportLease() {
  // Not the file of another process that took over the lease. The text decides: its inode may have the number that ours
  // had.
  char room[kLongestLease];
  if (held_ && read_into(room, open_lease(path_)) == text_) ::unlink(path_.c_str());
}

bool ReportLease::take() {
  const std::string here = pid_namespace();
  for (int attempt = 0; attempt < 2 && !held_; ++attempt) {
    // All nodes of a job but one find it taken.
    Descriptor other = open_lease(path_);
    const Descriptor file(other ? -1 : ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file) {
      text_ = node_ + " " + std::to_string(::getpid()) + " " + here + "\n";
      held_ = ::write(file.get(), text_.data(), text_.size()) >= 0;
      failure_ = held_ ? 0 : errno;
      if (!held_) ::unlink(path_.c_str());
      return held_;
    }
    failure_ = other || errno == EEXIST ? 0 : errno;
    if (failure_ != 0) return false;
    if (!other) other = open_lease(path_);
    char room[kLongestLease];
    std::string_view rest = read_into(room, other);
    const std::string holder(next_word(rest));
    std::string_view line = rest.substr(0, rest.find('\n'));
    const auto pid = parse_int(next_word(line));
    const std::string_view theirs = next_word(line);
    const bool comparable = theirs.empty() || theirs == here;
    const bool gone =
        holder == node_ && comparable && pid && ::kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH;
    if (!gone && !is_expired(path_, other)) return false;
    // If two processes take it over, one moves it away; the other must not take the new file for the old one.
    struct stat judged {};
    const std::string renamed = path_ + "." + node_ + "." + std::to_string(::getpid());
    if (!other || ::fstat(other.get(), &judged) != 0 || ::rename(path_.c_str(), renamed.c_str()) != 0) return false;
    const bool same = inode_of(renamed) == judged.st_ino;
    if (!same) static_cast<void>(::link(renamed.c_str(), path_.c_str()));
    ::unlink(renamed.c_str());
    if (!same) return false;
  }
  return held_;
}

}  // namespace reveal
