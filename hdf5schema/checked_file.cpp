#include "hdf5schema/checked_file.h"

#include <H5Cpp.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/hdf5_access.h"

namespace reveal {
namespace {

std::uint64_t little_endian(const unsigned char* at) {
  std::uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | at[i];
  return value;
}

Superblock read_superblock(int file, const std::string& place) {
  unsigned char bytes[48] = {};
  const ssize_t got = ::pread(file, bytes, sizeof bytes, 0);
  if (got < 0) throw system_error(place, errno);
  if (got == 0) throw Error(place + ": is empty");
  constexpr unsigned char kSignature[] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  if (std::memcmp(bytes, kSignature, std::min(sizeof kSignature, static_cast<std::size_t>(got))) != 0)
    throw Error(place + ": is not an HDF5 file");
  if (static_cast<std::size_t>(got) < sizeof bytes)
    throw Error(place + ": is cut off after " + std::to_string(got) + " bytes");
  Superblock block;
  constexpr int kVersion = 8;
  constexpr int kFlags = 11;
  constexpr int kEnd = 28;
  if (bytes[kVersion] < 2) return block;
  block.end = little_endian(bytes + kEnd);
  block.written_live = (bytes[kFlags] & 4) != 0;
  block.never_started = (bytes[kFlags] & 5) == 1;
  return block;
}

}  // namespace

CheckedFile::CheckedFile(const std::filesystem::path& path, const char* what) : path_(path) {
  const std::string place = path.string();
  // Without O_NONBLOCK, opening a FIFO waits for a writer. https://man7.org/linux/man-pages/man7/fifo.7.html
  file_ = Descriptor(::open(place.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file_ && errno == ELOOP) throw Error(place + ": is a symbolic link, not a " + what);
  struct stat status {};
  if (!file_ || ::fstat(file_.get(), &status) != 0) throw system_error(place, errno);
  if (S_ISDIR(status.st_mode)) throw Error(place + ": is a directory, not a " + what);
  if (!S_ISREG(status.st_mode)) throw Error(place + ": is not a regular file");
  size_ = static_cast<std::uint64_t>(status.st_size);
  superblock_ = read_superblock(file_.get(), place);
}

H5::H5File CheckedFile::open() const {
  H5::FileAccPropList list;
  check_hdf5(H5Pset_file_locking(list.getId(), false, true), "H5Pset_file_locking");
  check_hdf5(H5Pset_metadata_read_attempts(list.getId(), 10), "H5Pset_metadata_read_attempts");
  const unsigned mode = superblock_.written_live ? H5F_ACC_RDONLY | H5F_ACC_SWMR_READ : H5F_ACC_RDONLY;
  // By its descriptor, where /proc is mounted: whatever has the name by now, this is the file that was looked at.
  const std::string by_descriptor = "/proc/self/fd/" + std::to_string(file_.get());
  const bool has_proc = ::access(by_descriptor.c_str(), F_OK) == 0;
  H5::H5File file(has_proc ? by_descriptor : path_.string(), mode, H5::FileCreatPropList::DEFAULT, list);
  void* handle = nullptr;
  check_hdf5(H5Fget_vfd_handle(file.getId(), H5P_DEFAULT, &handle), "H5Fget_vfd_handle");
  struct stat looked_at {};
  struct stat opened {};
  if (::fstat(file_.get(), &looked_at) != 0 || ::fstat(*static_cast<const int*>(handle), &opened) != 0 ||
      looked_at.st_dev != opened.st_dev || looked_at.st_ino != opened.st_ino)
    throw Error(path_.string() + ": was replaced while it was opened");
  return file;
}

}  // namespace reveal
