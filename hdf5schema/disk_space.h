// The trace's own view of its file beside HDF5's: reserves blocks ahead, because a write that fails inside HDF5 may
// leave the library unable to close the file.
// https://man7.org/linux/man-pages/man2/fallocate.2.html
#pragma once

#include <cstdint>
#include <filesystem>

#include "hdf5schema/basics/descriptor.h"

namespace reveal {

class DiskSpace {
 public:
  explicit DiskSpace(const std::filesystem::path& path);

  [[nodiscard]] std::uint64_t size() const noexcept;
  /// 0, or the errno if `bytes` more cannot be written.
  [[nodiscard]] int reserve(std::uint64_t bytes) const noexcept;
  /// Releases reserved space that was not used, and waits until the rest is on the disk. Throws Error if it is not:
  /// network file systems report here that the disk is full.
  void finish() const;

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
};

// Both throw Error, and return when the new name is on the disk.
void rename_and_sync(const std::filesystem::path& from, const std::filesystem::path& to);
void rename_without_replacing(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace reveal
