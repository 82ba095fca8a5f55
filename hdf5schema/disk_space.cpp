#include "hdf5schema/disk_space.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "hdf5schema/basics/error.h"

namespace reveal {

DiskSpace::DiskSpace(const std::filesystem::path& path) : descriptor_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
  if (descriptor_ < 0) throw system_error(path.string(), errno);
}

DiskSpace::~DiskSpace() {
  ::close(descriptor_);
}

std::uint64_t DiskSpace::size() const noexcept {
  struct stat status {};
  return ::fstat(descriptor_, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

int DiskSpace::reserve(std::uint64_t bytes) const noexcept {
  if (::fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(size()), static_cast<off_t>(bytes)) == 0)
    return 0;
  // A file system without reservation must be believed until it fails.
  return errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO ? errno : 0;
}

void DiskSpace::finish() const noexcept {
  // Truncating to the same size frees the blocks behind the end.
  static_cast<void>(::ftruncate(descriptor_, static_cast<off_t>(size())) == 0);
  ::fdatasync(descriptor_);
}

void rename_without_replacing(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
  std::error_code ignored;
  if (errno == EEXIST || std::filesystem::exists(std::filesystem::symlink_status(to, ignored)))
    throw Error(to.string() + ": exists already; the trace stays at " + from.string());
  // NFS does not know the flag.
  if (::rename(from.c_str(), to.c_str()) != 0) throw system_error(from.string() + ": cannot be renamed", errno);
}

}  // namespace reveal
