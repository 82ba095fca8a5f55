// A chunk of 64-bit numbers, inflated and checked. The filter shuffle is undone where the numbers go, and only for
// those that are asked for: a piece of a trace takes a part of each chunk.
#pragma once

#include <cstddef>
#include <span>

#include "hdf5schema/byte_buffer.h"

namespace reveal {

struct NumberChunk {
  ByteBuffer bytes;       // none: the chunk is not stored
  bool shuffled = false;  // byte 0 of all numbers, then byte 1 of all, ...

  /// The bits of the numbers from `first` on, as many as fit into `to`. They must be in the chunk.
  void copy(std::size_t first, std::span<std::byte> to) const noexcept;
  /// The same numbers as doubles: integers converted, NaN for kMissing.
  void copy_as_reals(std::size_t first, std::span<std::byte> to) const noexcept;
};

/// Undoes the filter shuffle for 64-bit numbers.
void unshuffle_numbers(std::span<const unsigned char> shuffled, std::span<std::byte> to) noexcept;

}  // namespace reveal
