// A summary of the chunks of a dataset, independent of their order: computed when they are written, and again when they
// are read.
#pragma once

#include <cstdint>

namespace reveal {

struct StoredChunks {
  std::uint64_t count = 0;
  std::uint64_t digest = 0;

  /// `checksum`: the fletcher32 at the chunk's end. `row` and `column`: where the dataset has it.
  constexpr void add(std::uint64_t row, std::uint64_t column, std::uint32_t checksum) noexcept {
    ++count;
    std::uint64_t mixed = checksum + 0x9e3779b97f4a7c15 * (row + 1) + 0xc2b2ae3d27d4eb4f * (column + 1);
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;  // splitmix64
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    digest += mixed ^ mixed >> 31;
  }
  /// Adds the chunks of a family's absolute start values to its own.
  constexpr void add(const StoredChunks& bases) noexcept {
    count += bases.count;
    digest += 3 * bases.digest;
  }
};

}  // namespace reveal
