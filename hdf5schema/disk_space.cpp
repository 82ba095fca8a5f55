#include "hdf5schema/disk_space.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/private_files.h"

namespace reveal {

DiskSpace::DiskSpace(const std::filesystem::path& path)
    : path_(path), descriptor_(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC)) {
  if (!descriptor_) throw system_error(path.string(), errno);
}

std::uint64_t DiskSpace::size() const noexcept {
  struct stat status {};
  return ::fstat(descriptor_.get(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

int DiskSpace::reserve(std::uint64_t bytes) const noexcept {
  if (::fallocate(descriptor_.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(size()), static_cast<off_t>(bytes)) == 0)
    return 0;
  // A file system without reservation must be believed until it fails.
  return errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO ? errno : 0;
}

void DiskSpace::finish() const {
  struct stat status {};
  // Truncating to the same size frees the blocks behind the end.
  if (::fstat(descriptor_.get(), &status) != 0 || ::ftruncate(descriptor_.get(), status.st_size) != 0 ||
      ::fdatasync(descriptor_.get()) != 0)
    throw system_error(path_.string(), errno);
}

void rename_without_replacing(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0)
    return sync_directory(to.parent_path());
  const int why = errno;
  std::error_code ignored;
  if (why == EEXIST || std::filesystem::exists(std::filesystem::symlink_status(to, ignored)))
    throw Error(to.string() + ": exists already; the trace stays at " + from.string());
  if (why != EINVAL && why != ENOSYS) throw system_error(from.string() + ": cannot be renamed", why);
  rename_and_sync(from, to);  // NFS does not support the flag
}

void rename_and_sync(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw system_error(from.string() + ": cannot be renamed", errno);
  sync_directory(to.parent_path());
}

}  // namespace reveal
