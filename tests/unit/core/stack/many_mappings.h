// A process with more mappings than programs usually have.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

#include "hdf5schema/basics/descriptor.h"

namespace reveal::tests {

inline constexpr std::size_t kMuchMapsText = 4 << 20;

/// Maps a file with a long name so often that /proc/PID/maps is longer than kMuchMapsText, and at higher addresses all
/// of `library` as code. False where the kernel refuses it.
inline bool map_behind_many(const std::filesystem::path& folder, const std::filesystem::path& library) {
  constexpr std::size_t kMappings = 20'000;
  constexpr std::size_t kPage = 4096;
  const std::filesystem::path name = folder / std::string(200, 'n');
  std::ofstream(name) << std::string(kPage, 'x');
  const Descriptor many(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  const Descriptor last(::open(library.c_str(), O_RDONLY | O_CLOEXEC));
  const std::size_t size = std::filesystem::file_size(library);
  void* const place = ::mmap(nullptr, kMappings * kPage + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) return false;
  auto* const begin = static_cast<std::byte*>(place);
  for (std::size_t i = 0; i < kMappings; ++i) {  // the same page: the kernel does not join them
    if (::mmap(begin + i * kPage, kPage, PROT_READ, MAP_PRIVATE | MAP_FIXED, many.get(), 0) == MAP_FAILED) return false;
  }
  return ::mmap(begin + kMappings * kPage, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, last.get(), 0) !=
         MAP_FAILED;
}

}  // namespace reveal::tests
