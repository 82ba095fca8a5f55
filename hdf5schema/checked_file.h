// An HDF5 file from an untrusted source: opened so that it cannot lead to another file, before the library reads it.
#pragma once

#include <cstdint>
#include <filesystem>

#include "hdf5schema/basics/descriptor.h"

namespace H5 {
class H5File;
}

namespace reveal {

/// The contents of the first bytes of an HDF5 file.
/// https://docs.hdfgroup.org/hdf5/v1_14/_f_m_t3.html
struct Superblock {
  bool written_live = false;   // in SWMR mode, and not closed
  bool never_started = false;  // open for writing, not in SWMR mode
  std::uint64_t end = 0;       // bytes the file should have; 0 for old versions, which do not have it here
};

class CheckedFile {
 public:
  /// A regular file, reached without a symbolic link as its last name, that begins like HDF5. `what`: "trace", for the
  /// message. Throws Error.
  CheckedFile(const std::filesystem::path& path, const char* what);

  [[nodiscard]] const Superblock& superblock() const noexcept { return superblock_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

  /// This very file, to read. Under an Hdf5Access; H5::Exception where HDF5 refuses, Error where it is another file.
  [[nodiscard]] H5::H5File open() const;

 private:
  std::filesystem::path path_;
  Descriptor file_;
  Superblock superblock_;
  std::uint64_t size_ = 0;
};

}  // namespace reveal
