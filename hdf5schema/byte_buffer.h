// Memory for bytes of a file, all of which are written before any is read.
#pragma once

#include <memory>
#include <utility>
#include <vector>

namespace reveal {

/// For std::vector: resize() writes nothing. Zeros that a chunk replaces at once would cost as much as the chunk.
template <class Byte>
struct UnwrittenAllocator : std::allocator<Byte> {
  template <class Other>
  struct rebind {
    using other = UnwrittenAllocator<Other>;
  };

  void construct(Byte* /*at*/) noexcept {}
  template <class... Arguments>
  void construct(Byte* at, Arguments&&... arguments) {
    std::construct_at(at, std::forward<Arguments>(arguments)...);
  }
};

using ByteBuffer = std::vector<unsigned char, UnwrittenAllocator<unsigned char>>;

}  // namespace reveal
