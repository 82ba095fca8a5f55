// A chunk as the filters shuffle, deflate and fletcher32 of stock HDF5 leave it, made by libdeflate: a third of the
// time of the library's own pipeline, and shuffled only where that helps. In chunks that will soon be rewritten, only
// runs are compressed (deflate_runs.h), in a fifth of that time. Does not use HDF5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace reveal {

class ChunkCodec {
 public:
  /// temporary: the chunk will be written anew when the trace is closed. live: compression takes time of the job's
  /// node. closed: the chunk is written once; the first kThoroughValues 5 % smaller, which takes five times as
  /// long.
  enum class Effort : std::uint8_t { temporary, live, closed };

  static constexpr std::size_t kThoroughValues = std::size_t{1} << 22;

  explicit ChunkCodec(Effort effort);
  ~ChunkCodec();
  ChunkCodec(const ChunkCodec&) = delete;
  ChunkCodec& operator=(const ChunkCodec&) = delete;

  struct Chunk {
    std::span<const unsigned char> bytes;  // valid until the next encode()
    std::uint32_t skipped_filters = 0;     // bit n: the n-th filter was not applied
  };
  /// Throws std::bad_alloc.
  [[nodiscard]] Chunk encode(std::span<const std::int64_t> values);
  /// Frees the memory that encode() keeps for the next chunk.
  void give_back_memory() noexcept;

 private:
  void make_room(std::size_t bytes);
  /// Returns whether the values are left as they are.
  bool compress(std::span<const std::int64_t> values, std::size_t& length);

  struct Compressors;
  std::unique_ptr<Compressors> compressors_;  // none: temporary
  std::size_t thorough_values_ = 0;           // left
  std::vector<unsigned char> shuffled_;
  std::unique_ptr<unsigned char[]> deflated_;  // unused pages are never touched
  std::size_t room_ = 0;                       // in it
};

/// The checksum that the filter fletcher32 appends, little-endian.
[[nodiscard]] std::uint32_t fletcher32(std::span<const unsigned char> bytes) noexcept;
inline constexpr std::size_t kChecksumBytes = 4;
/// The one at the end of a chunk, which is at least as long.
[[nodiscard]] std::uint32_t checksum_of(std::span<const unsigned char> chunk) noexcept;

}  // namespace reveal
