#include "postproc/mail/mail_spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/file.h>
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
#include "hdf5schema/basics/random_hex.h"

namespace reveal {
namespace {

constexpr std::string_view kSpooled = "mail-";
constexpr std::string_view kBeingWritten = ".mail-";
constexpr std::string_view kDeletedButOpen = ".nfs";  // the server of the files deletes them
constexpr std::string_view kDigitsOfName = "0123456789abcdef";
constexpr std::size_t kNumberDigits = 16;
constexpr std::string_view kTurn = ".lock";
constexpr std::string_view kOwnRecords = "state";
constexpr std::size_t kMostNames = 100'000;  // names read in one call; the others come next time
constexpr std::int64_t kLongestWrite = std::int64_t{24} * 3600 * kSecond;
constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;
constexpr mode_t kSpoolMode = S_ISVTX | S_ISGID | S_IWOTH | S_IXOTH;

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
std::string unpredictable_name(Audience audience) {
  const std::string number = random_hex(kNumberDigits / 2);
  if (number.empty()) throw system_error("getrandom", errno);
  return fmt::format("{}{}{}", kSpooled, audience == Audience::user ? 'u' : 'a', number);
}

char letter_of_audience(const std::string& name) {
  return name[kSpooled.size()];
}

/// A name as unpredictable_name() makes them; the mailer's records could not have others with any bytes.
bool is_spooled_name(std::string_view name) {
  if (name.size() != kSpooled.size() + 1 + kNumberDigits || !name.starts_with(kSpooled)) return false;
  const char kind = name[kSpooled.size()];
  return (kind == 'u' || kind == 'a') &&
         name.find_first_not_of(kDigitsOfName, kSpooled.size() + 1) == std::string_view::npos;
}

bool is_being_written(std::string_view name) {
  return name.starts_with(kBeingWritten) || name.starts_with(kDeletedButOpen);
}

void put_in_order(std::vector<SpoolEntry>& mails) {
  std::sort(mails.begin(), mails.end(), [](const SpoolEntry& one, const SpoolEntry& other) {
    return std::tie(one.arrived_utc_ns, one.name) < std::tie(other.arrived_utc_ns, other.name);
  });
  std::map<std::pair<uid_t, char>, std::size_t> of_owner;
  for (SpoolEntry& mail : mails) mail.place = of_owner[{mail.owner, letter_of_audience(mail.name)}]++;
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

void leave_in_spool(const std::string& directory, std::string_view mail, Audience audience) {
  const std::string path = without_slash(directory);
  const OpenSpool spool = open_spool(path, O_PATH);
  refuse_own_group(path, spool.status);
  if (mail.size() > kLargestSpooledMail) throw Error(path + ": the report is too large for it");
  const std::string name = unpredictable_name(audience);
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
  if ((spool.status.st_mode & kSpoolMode) != kSpoolMode) {
    throw Error(path_ + " is no spool for mails, which is a directory of its own with mode 3733");
  }
  group_ = spool.status.st_gid;
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

struct MailSpool::Listed {
  std::vector<SpoolEntry> mails, others;
};

/// Directories do not count: those that a user filled cannot be deleted, and would leave no place for mails.
MailSpool::Listed MailSpool::list() const {
  Listed listed;
  DIR* stream = ::fdopendir(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (stream == nullptr) throw system_error(path_, errno);
  const std::int64_t now = utc_now_ns();
  std::map<uid_t, std::size_t> written;  // by each user at this moment
  for (std::size_t names = 0; names < kMostNames;) {
    const dirent* entry = ::readdir(stream);
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name == "." || name == ".." || name == kTurn || name == kOwnRecords) continue;
    struct stat status {};
    if (::fstatat(folder_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISDIR(status.st_mode)) ++names;
    const std::int64_t changed = nanoseconds_of(status.st_ctim);
    // Another group has a file that was moved here, perhaps by another user than its owner.
    const bool is_file = S_ISREG(status.st_mode) && status.st_nlink == 1 && status.st_gid == group_ &&
                         static_cast<std::size_t>(status.st_size) <= kLargestSpooledMail;
    if (is_file && is_spooled_name(name)) {
      listed.mails.push_back({.name = name, .owner = status.st_uid, .arrived_utc_ns = changed});
    } else if (is_file && is_being_written(name) && changed > now - kLongestWrite &&
               ++written[status.st_uid] <= kMostOfOwner) {
      continue;
    } else if (listed.others.size() < kMostNames) {
      listed.others.push_back({name, status.st_uid});
    }
  }
  ::closedir(stream);
  return listed;
}

std::vector<SpoolEntry> MailSpool::entries(OtherFiles other_files) {
  Listed listed = list();
  std::vector<SpoolEntry>& mails = listed.mails;
  put_in_order(mails);
  too_many_.clear();
  in_the_way_.clear();
  for (; !mails.empty() && mails.back().place >= kMostOfOwner; mails.pop_back()) {
    ++too_many_[mails.back().owner];
    listed.others.push_back(mails.back());
  }
  if (other_files == OtherFiles::kept) return std::move(mails);
  for (const SpoolEntry& other : listed.others) {
    if (!refuse(other.name)) ++in_the_way_[other.owner];
  }
  return std::move(mails);
}

std::vector<std::string> MailSpool::problems() const {
  std::vector<std::string> lines;
  for (const auto& [owner, count] : too_many_) {
    lines.push_back(fmt::format("{}: user {} has more than {} mails to one audience: the newest {} are too many", path_,
                                owner, kMostOfOwner, count));
  }
  for (const auto& [owner, count] : in_the_way_) {
    lines.push_back(fmt::format("{}: user {} has {} there that cannot be deleted, such as a directory with files",
                                path_, owner, count));
  }
  return lines;
}

Descriptor MailSpool::open(const SpoolEntry& entry) const {
  Descriptor file(
      ::openat(folder_.get(), entry.name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) throw system_error(path_of(entry.name), errno);
  if (!S_ISREG(status.st_mode) || status.st_uid != entry.owner || status.st_gid != group_ || status.st_nlink != 1) {
    throw Error(path_of(entry.name) + ": was replaced");
  }
  return file;
}

void MailSpool::remove(const std::string& name) const noexcept {
  ::unlinkat(folder_.get(), name.c_str(), 0);
}

/// False for a directory that a user filled: it stays, and is counted each time.
bool MailSpool::refuse(const std::string& name) noexcept {
  ++refused_;
  if (::unlinkat(folder_.get(), name.c_str(), 0) == 0) return true;
  if (errno == EISDIR || errno == EPERM) return ::unlinkat(folder_.get(), name.c_str(), AT_REMOVEDIR) == 0;
  return errno == ENOENT;
}

}  // namespace reveal
