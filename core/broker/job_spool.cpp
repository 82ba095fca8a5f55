#include "core/broker/job_spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/posix_acl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

Descriptor open_folder(int at, const std::string& name) noexcept {
  return Descriptor(::openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/// A directory of ours that no other user can write.
Descriptor open_private(const std::filesystem::path& path) {
  Descriptor folder = open_folder(AT_FDCWD, path.string());
  struct stat status {};
  if (!folder || ::fstat(folder.get(), &status) != 0) throw system_error(path.string(), errno);
  if (status.st_uid != ::geteuid() || (status.st_mode & 022) != 0) {
    throw Error(path.string() + ": must belong to root and be writable only by root");
  }
  return folder;
}

// linux/posix_acl_xattr.h, which C++ cannot read; little-endian.
// https://man7.org/linux/man-pages/man5/acl.5.html
struct AclEntry {
  std::uint16_t tag, permissions;
  std::uint32_t id;
};
struct Acl {
  std::uint32_t version = 2;
  std::array<AclEntry, 5> entries;
};
constexpr const char* kAclName = "system.posix_acl_access";

/// Root has all rights, this user may only read (and enter, if it is a directory), other users have no rights.
Acl acl_for_reader(uid_t uid, bool directory) noexcept {
  constexpr std::uint32_t kNone = ~0U;
  const std::uint16_t read = directory ? ACL_READ | ACL_EXECUTE : ACL_READ;
  const std::uint16_t all = static_cast<std::uint16_t>(read | ACL_WRITE);
  return {.entries = {{{ACL_USER_OBJ, all, kNone},
                       {ACL_USER, read, uid},
                       {ACL_GROUP_OBJ, 0, kNone},
                       {ACL_MASK, read, kNone},
                       {ACL_OTHER, 0, kNone}}}};
}

/// Root owns it first: an owner could change the list again, and keep a right to write in a folder of root's.
bool give_to_reader(int file, uid_t uid, bool directory) noexcept {
  struct stat before {};
  const Acl acl = acl_for_reader(uid, directory);
  if (::fstat(file, &before) != 0 || ::fchown(file, 0, 0) != 0) return false;
  if (::fsetxattr(file, kAclName, &acl, sizeof acl, 0) == 0) return true;
  [[maybe_unused]] const int returned = ::fchown(file, before.st_uid, before.st_gid);
  return false;
}

bool is_for_reader(int file, uid_t uid, bool directory) noexcept {
  Acl found{};
  const Acl ours = acl_for_reader(uid, directory);
  return ::fgetxattr(file, kAclName, &found, sizeof found) == sizeof found &&
         std::memcmp(&found, &ours, sizeof ours) == 0;
}

/// The user's own, or sealed for the user before. A user can move files of others here, out of a folder that both
/// write: only their owners may read those.
bool is_own_or_sealed(const struct stat& status, int file, uid_t uid) noexcept {
  return status.st_uid == uid || (status.st_uid == 0 && is_for_reader(file, uid, false));
}

bool give_to_owner(int file, uid_t uid, gid_t gid, mode_t mode) noexcept {
  return ::fremovexattr(file, kAclName) == 0 && ::fchown(file, uid, gid) == 0 && ::fchmod(file, mode) == 0;
}

struct CloseFolder {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};
using FolderList = std::unique_ptr<DIR, CloseFolder>;

FolderList list_folder(int folder) noexcept {
  const int list = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  FolderList files(list >= 0 ? ::fdopendir(list) : nullptr);
  if (!files && list >= 0) ::close(list);
  return files;
}

Descriptor open_file(int at, const char* name) noexcept {
  return Descriptor(::openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

/// A run that goes on where an earlier one of the same job and user was sealed.
bool give_back(const Descriptor& base, const std::string& name, uid_t uid, gid_t gid) noexcept {
  const Descriptor folder = open_folder(base.get(), name);
  if (!folder || !is_for_reader(folder.get(), uid, true)) return false;
  const FolderList files = list_folder(folder.get());
  while (const dirent* entry = files ? ::readdir(files.get()) : nullptr) {
    const Descriptor file = open_file(folder.get(), entry->d_name);
    if (file && is_for_reader(file.get(), uid, false)) give_to_owner(file.get(), uid, gid, 0600);
  }
  return give_to_owner(folder.get(), uid, gid, 0700);
}

/// The last part of `path`, in `base`. It appears as the user's: two collectors may come at the same moment.
void make_user_folder(const Descriptor& base, const std::filesystem::path& path, uid_t uid, gid_t gid) {
  const std::string name = path.filename().string();
  struct stat status {};
  if (::fstatat(base.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    const std::string fresh = "." + name + "." + std::to_string(::getpid());
    if (::mkdirat(base.get(), fresh.c_str(), 0700) != 0) throw system_error(path.string(), errno);
    const bool given = ::fchownat(base.get(), fresh.c_str(), uid, gid, AT_SYMLINK_NOFOLLOW) == 0;
    if (given && ::renameat2(base.get(), fresh.c_str(), base.get(), name.c_str(), RENAME_NOREPLACE) == 0) return;
    const int error = errno;
    ::unlinkat(base.get(), fresh.c_str(), AT_REMOVEDIR);
    if (!given || error != EEXIST) throw system_error(path.string(), error);
    if (::fstatat(base.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
      throw system_error(path.string(), errno);
  }
  if (S_ISDIR(status.st_mode) && status.st_uid == 0 && give_back(base, name, uid, gid)) return;
  // Other users may have write access, if the owner grants it: it is read with the owner's rights only.
  if (!S_ISDIR(status.st_mode) || status.st_uid != uid) {
    throw Error(path.string() + ": belongs to another user");
  }
}

}  // namespace

std::string run_name(const std::string& job, int restart) {
  return restart > 0 ? job + "-r" + std::to_string(restart) : job;
}

std::filesystem::path make_job_spool(const std::filesystem::path& spool, const std::string& run, uid_t uid, gid_t gid) {
  make_user_folder(open_private(spool), spool / run, uid, gid);
  return spool / run;
}

std::filesystem::path make_mail_state(const std::filesystem::path& spool, uid_t uid, gid_t gid) {
  const Descriptor base = open_private(spool);
  const bool fresh = ::mkdirat(base.get(), "mail", 0700) == 0;
  if (!fresh && errno != EEXIST) throw system_error((spool / "mail").string(), errno);
  if (fresh) ::fchmodat(base.get(), "mail", 0711, 0);  // whatever the umask is
  std::filesystem::path state = spool / "mail" / std::to_string(uid);
  make_user_folder(open_private(spool / "mail"), state, uid, gid);
  return state;
}

SpoolLimits spool_limits(const std::filesystem::path& spool, const Config& config) {
  constexpr std::uint64_t kMostInAll = 10'000'000'000;
  constexpr std::uint64_t kShare = 10;
  SpoolLimits limits{.run = config.size(config_key("slurm", "spool_max")),
                     .total = config.size(config_key("slurm", "spool_total_max"))};
  struct statvfs disk {};
  if (limits.total == 0) {
    limits.total = kMostInAll;
    if (::statvfs(spool.c_str(), &disk) == 0) {
      limits.total = std::min(limits.total, std::uint64_t{disk.f_blocks} * disk.f_frsize / kShare);
    }
  }
  return limits;
}

namespace {

/// The contents of a spool.
struct SpoolUse {
  std::map<uid_t, std::uint64_t> bytes;  // by user; files of root count for the user who may read them
  std::string oldest;                    // run
  time_t since = 0;                      // its age
  std::set<uid_t> mounted;               // users with a file system of their own in a run

  void add(const struct stat& status, uid_t reader) {
    constexpr std::uint64_t kBlock = 512;
    bytes[status.st_uid != 0 ? status.st_uid : reader] += static_cast<std::uint64_t>(status.st_blocks) * kBlock;
  }
};

/// Returns the user who may read a folder that has been handed to root; 0 if there is none.
uid_t reader_of(const std::filesystem::path& folder) {
  Acl found{};
  const bool sealed = ::lgetxattr(folder.c_str(), kAclName, &found, sizeof found) == sizeof found;
  return sealed && found.entries[1].tag == ACL_USER ? found.entries[1].id : 0;
}

constexpr int kMostCountedFiles = 200'000;

/// The files in a folder of the spool. Where one is removed meanwhile, as the user may do, the rest of this folder is
/// left out, and not that of the spool.
void count_files(const std::filesystem::path& folder, uid_t reader, int& files, SpoolUse& use) {
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator entry(folder, error), end;
       !error && entry != end && files < kMostCountedFiles; entry.increment(error), ++files) {
    struct stat status {};
    if (::lstat(entry->path().c_str(), &status) == 0) use.add(status, reader);
  }
}

/// Mount points, as the kernel writes them.
std::vector<std::string> mount_points() {
  constexpr std::size_t kMostText = std::size_t{4} << 20;
  constexpr std::size_t kPlaceOfPoint = 4;
  std::vector<std::string> points;
  const std::string text = file_text("/proc/self/mountinfo", kMostText);
  std::string_view rest = text;
  std::string_view line;
  while (next_line(rest, line)) {
    const std::vector<std::string> words = split_words(line);
    if (words.size() > kPlaceOfPoint) points.push_back(words[kPlaceOfPoint]);
  }
  return points;
}

enum class Mounted : std::uint8_t { nothing, over_it, below };

Mounted mounted_at(const std::vector<std::string>& points, const std::string& folder) {
  Mounted found = Mounted::nothing;
  for (const std::string& point : points) {
    if (point == folder) return Mounted::over_it;
    if (point.starts_with(folder + '/')) found = Mounted::below;
  }
  return found;
}

/// Follows no link: it only counts. A file system that a user has mounted in his run (FUSE) answers when he likes.
SpoolUse use_of(const std::filesystem::path& spool) {
  SpoolUse use;
  int files = 0;
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(spool, error);
  const std::vector<std::string> points = mount_points();
  for (std::filesystem::directory_iterator entry(spool, error), end;
       !error && entry != end && files < kMostCountedFiles; entry.increment(error), ++files) {
    struct stat status {};
    const Mounted mounted = mounted_at(points, (real / entry->path().filename()).string());
    if (mounted == Mounted::over_it || ::lstat(entry->path().c_str(), &status) != 0) continue;
    if (mounted == Mounted::below) {
      use.mounted.insert(status.st_uid);
      continue;
    }
    const uid_t reader = reader_of(entry->path());
    use.add(status, reader);
    if (S_ISDIR(status.st_mode)) count_files(entry->path(), reader, files, use);
    const std::string name = entry->path().filename().string();
    if (name[0] < '0' || name[0] > '9') continue;
    if (use.oldest.empty() || status.st_ctime < use.since) {
      use.oldest = name;
      use.since = status.st_ctime;
    }
  }
  return use;
}

std::string megabytes(std::uint64_t bytes) {
  constexpr double kMegabyte = 1e6;
  return std::to_string(std::llround(static_cast<double>(bytes) / kMegabyte)) + " MB";
}

}  // namespace

void require_room(const std::filesystem::path& spool, const SpoolLimits& limits, uid_t user) {
  const SpoolUse use = use_of(spool);
  if (user != 0 && use.mounted.contains(user)) {
    throw Error(spool.string() + ": user " + std::to_string(user) +
                " has mounted a file system in it: no new recording of this user starts on this node");
  }
  const std::uint64_t share = limits.total / 2;
  const auto own = use.bytes.find(user);
  if (user != 0 && own != use.bytes.end() && own->second > share) {
    throw Error(spool.string() + " holds " + megabytes(own->second) + " of user " + std::to_string(user) +
                ", more than half of spool_total_max (" + megabytes(limits.total) +
                "): no new recording of this user starts on this node");
  }
  std::uint64_t counted = 0;
  std::uint64_t used = 0;
  auto most = use.bytes.begin();
  for (auto each = use.bytes.begin(); each != use.bytes.end(); ++each) {
    used += each->second;
    counted += each->first == 0 ? each->second : std::min(each->second, share);
    if (each->second > most->second) most = each;
  }
  if (counted <= limits.total) return;
  std::string text = spool.string() + " holds " + megabytes(used) + ", more than spool_total_max (" +
                     megabytes(limits.total) + "): no new recording starts on this node; the largest part, " +
                     megabytes(most->second) + ", belongs to user " + std::to_string(most->first);
  if (!use.oldest.empty()) {
    char day[32] = "";
    struct tm time {};
    if (::gmtime_r(&use.since, &time) != nullptr) std::strftime(day, sizeof day, "%F", &time);
    text += "; the oldest undelivered run is " + use.oldest + ", of " + day;
  }
  throw Error(text);
}

void remove_job_spool(const std::filesystem::path& folder) noexcept {
  const Descriptor base = open_folder(AT_FDCWD, folder.parent_path().string());
  if (base) ::unlinkat(base.get(), folder.filename().c_str(), AT_REMOVEDIR);
}

bool seal_job_spool(const std::filesystem::path& folder, uid_t uid, std::uint64_t most_bytes) noexcept {
  constexpr int kMostFiles = 1000;
  if (::geteuid() != 0 || uid == 0) return true;
  const Descriptor base = open_folder(AT_FDCWD, folder.parent_path().string());
  const Descriptor job = base ? open_folder(base.get(), folder.filename().string()) : Descriptor();
  struct stat status {};
  if (!job || ::fstat(job.get(), &status) != 0 || status.st_uid != uid) return true;
  if (!give_to_reader(job.get(), uid, true)) return false;
  // From here on the user changes no name in it.
  const FolderList files = list_folder(job.get());
  std::uint64_t bytes = 0;
  int count = 0;
  while (const dirent* entry = files ? ::readdir(files.get()) : nullptr) {
    const char* const name = entry->d_name;
    if (std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0) continue;
    if (++count > kMostFiles) {
      ::fremovexattr(job.get(), kAclName);  // nor does he see it: until the janitor comes
      ::fchmod(job.get(), 0700);
      break;
    }
    if (::fstatat(job.get(), name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISDIR(status.st_mode)) {
      const Descriptor inner = open_folder(job.get(), name);
      if (inner && ::fchown(inner.get(), 0, 0) == 0) ::fchmod(inner.get(), 0700);
      continue;
    }
    bytes += static_cast<std::uint64_t>(status.st_size);
    const Descriptor file = S_ISREG(status.st_mode) ? open_file(job.get(), name) : Descriptor();
    const bool taken = file && status.st_nlink == 1 && bytes <= most_bytes &&
                       is_own_or_sealed(status, file.get(), uid) && give_to_reader(file.get(), uid, false);
    if (!taken) ::unlinkat(job.get(), name, 0);
  }
  return true;
}

}  // namespace reveal
