#include "core/broker/job_spool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"

namespace reveal {
namespace {

Descriptor open_folder(int at, const std::string& name) noexcept {
  return Descriptor(::openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/// A directory of ours that nobody else can write.
Descriptor open_private(const std::filesystem::path& path) {
  Descriptor folder = open_folder(AT_FDCWD, path.string());
  struct stat status {};
  if (!folder || ::fstat(folder.get(), &status) != 0) throw system_error(path.string(), errno);
  if (status.st_uid != ::geteuid() || (status.st_mode & 022) != 0) {
    throw Error(path.string() + ": must belong to root and be writable by nobody else");
  }
  return folder;
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
  // Whom the user lets write in it is the user's affair: whoever reads it is that user.
  if (!S_ISDIR(status.st_mode) || status.st_uid != uid) {
    throw Error(path.string() + ": belongs to somebody else");
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

void remove_job_spool(const std::filesystem::path& folder) noexcept {
  const Descriptor base = open_folder(AT_FDCWD, folder.parent_path().string());
  if (base) ::unlinkat(base.get(), folder.filename().c_str(), AT_REMOVEDIR);
}

}  // namespace reveal
