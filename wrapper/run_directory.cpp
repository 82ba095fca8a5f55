#include "wrapper/run_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <memory>
#include <vector>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/private_files.h"

namespace reveal {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::string_view kRankPrefix = "rank.";
constexpr const char* kCountFile = "joined";
constexpr milliseconds kStep{5};

void pause_shortly() {
  const timespec step{0, std::chrono::nanoseconds(kStep).count()};
  ::nanosleep(&step, nullptr);
}

std::vector<std::string> entries(int directory) {
  std::vector<std::string> names;
  const int copy = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return names;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::fdopendir(copy), ::closedir);
  if (!listing) {
    ::close(copy);
    return names;
  }
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

std::string read_at(int directory, const char* name) {
  const Descriptor file(::openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file) return {};
  std::string text(8192, '\0');
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return text;
}

// Every wrapper holds a lock on its own rank file: the kernel drops it with the process, whatever killed it, and it
// means the same in every pid namespace (containers may share this directory).
// https://man7.org/linux/man-pages/man2/flock.2.html
int count_living_ranks(int directory) {
  int living = 0;
  for (const std::string& name : entries(directory)) {
    if (!name.starts_with(kRankPrefix)) continue;
    const Descriptor file(::openat(directory, name.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
    if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) ++living;
  }
  return living;
}

bool take_lock(int fd, milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK || Clock::now() >= deadline) return false;
    pause_shortly();
  }
  return true;
}

void remove_directory(int parent, const std::string& name) noexcept {
  try {
    const Descriptor directory(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory) return;
    for (const std::string& entry : entries(directory.get())) ::unlinkat(directory.get(), entry.c_str(), 0);
    ::unlinkat(parent, name.c_str(), AT_REMOVEDIR);
  } catch (...) {  // out of memory: the next run removes it
  }
}

}  // namespace

std::string run_directory_base(const Environment& environment) {
  const std::string runtime = environment("XDG_RUNTIME_DIR");
  // systemd removes /run/user/UID with the last login of its user on this node, and a job of Slurm's is none: it goes
  // on. https://www.freedesktop.org/software/systemd/man/latest/pam_systemd.html
  const bool outlived = runtime.starts_with("/run/user/") && !environment("SLURM_JOB_ID").empty();
  if (runtime.starts_with('/') && !outlived) {
    try {
      // Inherited from a login node it often does not exist here; after `sudo -E` it belongs to another user.
      struct stat status {};
      if (::lstat(runtime.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid()) {
        return private_directory(runtime + "/reveal");
      }
    } catch (const Error&) {  // read-only or full: /tmp may still do
    }
  }
  return private_directory("/tmp/reveal-" + std::to_string(::geteuid()));
}

RunDirectory::RunDirectory(const Launch& launch, const std::string& base, milliseconds limit)
    : path_(base + "/" + launch.key),
      rank_name_(std::string(kRankPrefix) + std::to_string(::getpid())),
      number_(launch.rank),
      expected_ranks_(launch.ranks_on_node) {
  const auto deadline = Clock::now() + limit;
  try {
    // The last rank of an earlier launch may move the directory away between our steps; then begin again.
    while (!enter(std::chrono::duration_cast<milliseconds>(deadline - Clock::now()))) {
      if (Clock::now() >= deadline) throw Error(path_ + " is in use by a run that is ending");
      pause_shortly();
    }
  } catch (const std::exception&) {
    for (Descriptor* each : {&rank_, &lock_, &directory_}) each->close();  // there may be no more
    if (!launch.shared) remove_directory(AT_FDCWD, path_);  // else other ranks are in it, or remove it as the last
    throw;
  }
}

bool RunDirectory::enter(milliseconds limit) {
  // Inside a directory that only this user can enter, so all its entries are ours.
  if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) throw system_error(path_, errno);
  directory_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory_) {
    if (errno == ENOENT) return false;
    throw system_error(path_, errno);
  }
  // The files in it are written once: of a launch of weeks, systemd-tmpfiles would delete them in /tmp after ten days.
  // It leaves a locked directory alone. https://www.freedesktop.org/software/systemd/man/latest/tmpfiles.d.html
  ::flock(directory_.get(), LOCK_SH | LOCK_NB);
  lock_ = Descriptor(::openat(directory_.get(), "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!lock_) {
    if (errno == ENOENT) return false;
    throw system_error(path_ + "/lock", errno);
  }
  locked_ = take_lock(lock_.get(), limit);
  if (!still_in_place()) return false;

  rank_ = Descriptor(::openat(directory_.get(), rank_name_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  const Descriptor count(::openat(directory_.get(), kCountFile, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if ((!rank_ || !count) && errno == ENOENT) return false;
  if (!rank_ || ::flock(rank_.get(), LOCK_EX | LOCK_NB) != 0 || !count || ::write(count.get(), "+", 1) < 0) {
    throw system_error(path_ + "/" + rank_name_, errno);
  }
  // For the collector. Without a number it counts the ranks by process id.
  const std::string number = number_ ? std::to_string(*number_) + "\n" : "";
  if (::ftruncate(rank_.get(), 0) != 0 || ::pwrite(rank_.get(), number.data(), number.size(), 0) < 0) {
    throw system_error(path_ + "/" + rank_name_, errno);
  }
  return still_in_place();
}

RunDirectory::~RunDirectory() {
  remove();
}

void RunDirectory::unlock() noexcept {
  if (locked_) ::flock(lock_.get(), LOCK_UN);
  locked_ = false;
}

bool RunDirectory::still_in_place() const {
  struct stat ours {};
  struct stat there {};
  return ::fstat(directory_.get(), &ours) == 0 && ::lstat(path_.c_str(), &there) == 0 && ours.st_ino == there.st_ino &&
         ours.st_dev == there.st_dev;
}

std::string RunDirectory::read(const char* name) const {
  return read_at(directory_.get(), name);
}

void RunDirectory::write(const char* name, const std::string& text) const {
  const Descriptor file(::openat(directory_.get(), name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw system_error(path_ + "/" + name, errno);
  }
}

Descriptor RunDirectory::open_log(const char* name) const {
  return Descriptor(::openat(directory_.get(), name, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
}

bool RunDirectory::leave(milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  const auto awaited = [&] {
    return expected_ranks_ && read(kCountFile).size() < static_cast<std::size_t>(*expected_ranks_);
  };
  // Without this, the first rank of a very short launch would close the trace before the last one begins.
  while (awaited() && Clock::now() < deadline) pause_shortly();

  removed_ = ::unlinkat(directory_.get(), rank_name_.c_str(), 0) != 0 && errno == ENOENT;
  if (removed_) return false;
  while (!locked_) {
    if (!still_in_place()) return false;  // another rank was the last one
    locked_ = take_lock(lock_.get(), kStep);
    if (!locked_ && Clock::now() >= deadline) return false;
  }
  if (count_living_ranks(directory_.get()) > 0 || !still_in_place()) {
    unlock();
    return false;
  }
  const std::string aside = path_ + ".closing." + std::to_string(::getpid());
  if (::rename(path_.c_str(), aside.c_str()) == 0) path_ = aside;
  mine_to_remove_ = true;
  return true;
}

void RunDirectory::remove() noexcept {
  if (!mine_to_remove_) return;
  remove_directory(AT_FDCWD, path_);
}

void remove_abandoned_runs(const std::string& base) noexcept {
  constexpr std::size_t kMostAtOnce = 64;  // the rest is for the next run
  constexpr time_t kYoungest = 60;         // a directory may be without ranks for a moment while it is made
  try {
    const Descriptor directory(::open(base.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory) return;
    std::vector<std::string> names = entries(directory.get());
    names.resize(std::min(names.size(), kMostAtOnce));
    for (const std::string& name : names) {
      struct stat status {};
      if (::fstatat(directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(status.st_mode) ||
          status.st_mtime + kYoungest > ::time(nullptr)) {
        continue;
      }
      const Descriptor run(::openat(directory.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      const Descriptor lock(run ? ::openat(run.get(), "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC) : -1);
      const bool free = !lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
      if (run && free && count_living_ranks(run.get()) == 0) remove_directory(directory.get(), name);
    }
  } catch (...) {  // tidying up is never worth a job
  }
}

}  // namespace reveal
