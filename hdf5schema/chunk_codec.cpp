#include "hdf5schema/chunk_codec.h"

#include <libdeflate.h>

#include <algorithm>
#include <new>

namespace reveal {
namespace {

constexpr std::size_t kElement = sizeof(std::int64_t);
constexpr std::size_t kChecksum = 4;
constexpr std::uint32_t kNoShuffle = 1;  // the first filter
constexpr int kQuick = 1;                // tells whether shuffling helps, and will do for what is written anew
constexpr int kUsual = 6;
constexpr int kThorough = 10;

/// Byte 0 of all elements, then byte 1 of all, ...
void shuffle(std::span<const std::int64_t> values, std::vector<unsigned char>& into) {
  into.resize(values.size() * kElement);
  for (std::size_t byte = 0; byte < kElement; ++byte) {
    unsigned char* plane = into.data() + byte * values.size();
    const std::size_t shift = 8 * byte;
    for (std::size_t i = 0; i < values.size(); ++i)
      plane[i] = static_cast<unsigned char>(static_cast<std::uint64_t>(values[i]) >> shift);
  }
}

struct FreeCompressor {
  void operator()(libdeflate_compressor* compressor) const { libdeflate_free_compressor(compressor); }
};
using Compressor = std::unique_ptr<libdeflate_compressor, FreeCompressor>;

Compressor make_compressor(int level) {
  Compressor compressor(libdeflate_alloc_compressor(level));
  if (!compressor) throw std::bad_alloc();
  return compressor;
}

}  // namespace

struct ChunkCodec::Compressors {
  Compressor quick = make_compressor(kQuick);
  Compressor usual;     // none: the quick one has to do
  Compressor thorough;  // 9 MB
};

ChunkCodec::ChunkCodec(Effort effort) : compressors_(std::make_unique<Compressors>()) {
  if (effort == Effort::passing) return;
  compressors_->usual = make_compressor(kUsual);
  if (effort != Effort::closed) return;
  compressors_->thorough = make_compressor(kThorough);
  thorough_values_ = kThoroughValues;
}

ChunkCodec::~ChunkCodec() = default;

ChunkCodec::Chunk ChunkCodec::encode(std::span<const std::int64_t> values) {
  const std::size_t size = values.size() * kElement;
  shuffle(values, shuffled_);
  const std::size_t most = libdeflate_zlib_compress_bound(nullptr, size);
  const auto deflate = [&](const Compressor& compressor, const void* bytes, std::vector<unsigned char>& into) {
    into.resize(most + kChecksum);
    const std::size_t length = libdeflate_zlib_compress(compressor.get(), bytes, size, into.data(), most);
    if (length == 0) throw std::bad_alloc();  // cannot be: there is room for the worst case
    return length;
  };
  // Times in ticks of 10 ms, and what seldom changes, are smaller as they are.
  const std::size_t plain_length = deflate(compressors_->quick, values.data(), plain_);
  std::size_t length = deflate(compressors_->quick, shuffled_.data(), deflated_);
  const bool plain = plain_length < length;
  if (compressors_->usual) {
    const void* bytes = plain ? static_cast<const void*>(values.data()) : shuffled_.data();
    const bool thorough = thorough_values_ >= values.size();
    if (thorough) thorough_values_ -= values.size();
    length = deflate(thorough ? compressors_->thorough : compressors_->usual, bytes, deflated_);
  } else if (plain) {
    deflated_.swap(plain_);
    length = plain_length;
  }
  const std::uint32_t sum = fletcher32(std::span(deflated_).first(length));
  for (std::size_t i = 0; i < kChecksum; ++i) deflated_[length + i] = static_cast<unsigned char>(sum >> (8 * i));
  return {std::span(deflated_).first(length + kChecksum), plain ? kNoShuffle : 0};
}

std::uint32_t fletcher32(std::span<const unsigned char> bytes) noexcept {
  constexpr std::size_t kWordsBeforeOverflow = 360;
  std::uint32_t first = 0;
  std::uint32_t second = 0;
  const auto fold = [](std::uint32_t sum) { return (sum & 0xffff) + (sum >> 16); };
  std::size_t at = 0;
  for (std::size_t words = bytes.size() / 2; words > 0;) {
    const std::size_t now = std::min(words, kWordsBeforeOverflow);
    words -= now;
    for (const std::size_t end = at + 2 * now; at < end; at += 2) {
      first += static_cast<std::uint32_t>(bytes[at]) << 8 | bytes[at + 1];
      second += first;
    }
    first = fold(first);
    second = fold(second);
  }
  if (at < bytes.size()) {  // an odd byte counts as the upper half of a word
    first += static_cast<std::uint32_t>(bytes[at]) << 8;
    second += first;
    first = fold(first);
    second = fold(second);
  }
  first = fold(first);
  second = fold(second);
  return second << 16 | first;
}

}  // namespace reveal
