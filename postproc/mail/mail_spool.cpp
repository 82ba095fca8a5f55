#include "postproc/mail/mail_spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <tuple>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/private_files.h"

namespace reveal {
namespace {

constexpr std::string_view kSpooled = "mail-";
constexpr std::string_view kBeingWritten = ".mail-";
constexpr std::string_view kTurn = ".lock";
constexpr std::string_view kOwnRecords = "state";
constexpr std::size_t kMostNames = 100'000;  // names read in one call; the others come next time
constexpr std::int64_t kLongestWrite = std::int64_t{24} * 3600 * kSecond;
constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();  // "link/" would be followed
  return path;
}

struct OpenSpool {
  Descriptor folder;
  struct stat status {};
};

/// `access`: O_PATH for those who may not list it.
OpenSpool open_spool(const std::string& path, int access) {
  OpenSpool spool{Descriptor(::open(path.c_str(), access | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)), {}};
  if (!spool.folder && (errno == ELOOP || errno == ENOTDIR)) {
    throw Error(path + " is not a directory, or a link to one");
  }
  if (!spool.folder || ::fstat(spool.folder.get(), &spool.status) != 0) throw system_error(path, errno);
  if ((spool.status.st_mode & kOthersWrite) != 0 && (spool.status.st_mode & S_ISVTX) == 0) {
    throw Error(path + ": others may delete files of it; try: chmod 3733 " + path);
  }
  return spool;
}

/// Everybody in a group of the user could read the user's reports.
void refuse_own_group(const std::string& path, const struct stat& status) {
  const bool own = status.st_gid == ::getegid() || ::group_member(status.st_gid) != 0;
  if (status.st_uid != ::geteuid() && own) {
    throw Error(path + ": its group has ordinary users; it must be the group of the mailer alone");
  }
}

/// No other user can take the name first.
std::string unpredictable_name() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) throw system_error("getrandom", errno);
  return fmt::format("{}{:016x}", kSpooled, number);
}

void put_in_order(std::vector<SpoolEntry>& mails) {
  std::sort(mails.begin(), mails.end(), [](const SpoolEntry& one, const SpoolEntry& other) {
    return std::tie(one.arrived_utc_ns, one.name) < std::tie(other.arrived_utc_ns, other.name);
  });
  std::map<uid_t, std::size_t> of_owner;
  for (SpoolEntry& mail : mails) mail.place = of_owner[mail.owner]++;
  std::stable_sort(mails.begin(), mails.end(),
                   [](const SpoolEntry& one, const SpoolEntry& other) { return one.place < other.place; });
}

bool is_own_lock(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
}

}  // namespace

void require_mail_spool(const std::string& directory) {
  const std::string path = without_slash(directory);
  refuse_own_group(path, open_spool(path, O_PATH).status);
}

void leave_in_spool(const std::string& directory, std::string_view mail) {
  const std::string path = without_slash(directory);
  const OpenSpool spool = open_spool(path, O_PATH);
  refuse_own_group(path, spool.status);
  if (mail.size() > kLargestSpooledMail) throw Error(path + ": the report is too large for it");
  const std::string name = unpredictable_name();
  NewFile file(spool.folder.get(), path, name, "." + name, S_IRUSR | S_IWUSR);
  struct stat status {};
  if (::fstat(file.descriptor(), &status) != 0) throw system_error(path, errno);
  if (status.st_gid != spool.status.st_gid) {
    throw Error(path + ": new files do not get its group; try: chmod 3733 " + path);
  }
  file.write(mail);
  if (::fchmod(file.descriptor(), S_IRUSR | S_IWUSR | S_IRGRP) != 0) throw system_error(path, errno);
  if (!file.publish_as(name)) throw Error(path + "/" + name + ": there is such a file already");
}

MailSpool::MailSpool(const std::string& directory) : path_(without_slash(directory)) {
  OpenSpool spool = open_spool(path_, O_RDONLY);
  if (spool.status.st_uid != ::geteuid()) throw Error(path_ + " belongs to another account than the mailer's");
  folder_ = std::move(spool.folder);
}

bool MailSpool::take_turn() {
  const std::string name(kTurn);
  for (int attempt = 0; attempt < 2; ++attempt) {
    Descriptor file(::openat(folder_.get(), name.c_str(),
                             O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (file && is_own_lock(file.get())) {
      // Not on the directory: NFS locks only files that are open for writing.
      // https://man7.org/linux/man-pages/man2/flock.2.html
      if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) return false;
        throw system_error(path_of(name), errno);
      }
      turn_ = std::move(file);
      return true;
    }
    refuse(name);  // a user took the name first
  }
  throw Error(path_of(name) + ": is in the way and cannot be deleted");
}

std::vector<SpoolEntry> MailSpool::entries(OtherFiles other_files) {
  DIR* stream = ::fdopendir(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (stream == nullptr) throw system_error(path_, errno);
  const std::int64_t now = utc_now_ns();
  std::vector<SpoolEntry> mails;
  std::vector<std::string> others;
  std::map<uid_t, std::size_t> written;  // by each user at this moment
  for (std::size_t names = 0; names < kMostNames; ++names) {
    const dirent* entry = ::readdir(stream);
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name == "." || name == ".." || name == kTurn || name == kOwnRecords) continue;
    if (name.starts_with(".nfs")) continue;  // a deleted file that is still open: the server deletes it
    struct stat status {};
    if (::fstatat(folder_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const std::int64_t changed = nanoseconds_of(status.st_ctim);
    const bool is_file = S_ISREG(status.st_mode) && status.st_nlink == 1 &&
                         static_cast<std::size_t>(status.st_size) <= kLargestSpooledMail;
    if (is_file && name.starts_with(kSpooled)) {
      mails.push_back({.name = name, .owner = status.st_uid, .arrived_utc_ns = changed});
    } else if (is_file && name.starts_with(kBeingWritten) && changed > now - kLongestWrite) {
      if (++written[status.st_uid] > kMostOfOwner) others.push_back(name);
    } else {
      others.push_back(name);
    }
  }
  ::closedir(stream);
  put_in_order(mails);
  for (; !mails.empty() && mails.back().place >= kMostOfOwner; mails.pop_back()) others.push_back(mails.back().name);
  if (other_files == OtherFiles::kept) return mails;
  for (const std::string& name : others) refuse(name);
  return mails;
}

Descriptor MailSpool::open(const SpoolEntry& entry) const {
  Descriptor file(
      ::openat(folder_.get(), entry.name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) throw system_error(path_of(entry.name), errno);
  if (!S_ISREG(status.st_mode) || status.st_uid != entry.owner || status.st_nlink != 1) {
    throw Error(path_of(entry.name) + ": was replaced");
  }
  return file;
}

void MailSpool::remove(const std::string& name) const noexcept {
  ::unlinkat(folder_.get(), name.c_str(), 0);
}

/// A directory that a user filled stays, and is counted each time.
void MailSpool::refuse(const std::string& name) noexcept {
  ++refused_;
  if (::unlinkat(folder_.get(), name.c_str(), 0) != 0 && (errno == EISDIR || errno == EPERM)) {
    ::unlinkat(folder_.get(), name.c_str(), AT_REMOVEDIR);
  }
}

}  // namespace reveal
