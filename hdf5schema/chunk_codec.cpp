#include "hdf5schema/chunk_codec.h"

#include <libdeflate.h>

#include <algorithm>
#include <new>

#include "hdf5schema/deflate_runs.h"

namespace reveal {
namespace {

constexpr std::size_t kElement = sizeof(std::int64_t);
constexpr std::uint32_t kNoShuffle = 1;  // the first filter
constexpr int kQuick = 1;                // shows whether shuffling helps
constexpr int kUsual = 6;
constexpr int kThorough = 10;

/// Byte 0 of all elements, then byte 1 of all, ... Most of them are 0: increments are small, and seldom.
void shuffle(std::span<const std::int64_t> values, std::vector<unsigned char>& into) {
  constexpr std::size_t kTogether = 8;
  into.assign(values.size() * kElement, 0);
  for (std::size_t first = 0; first < values.size(); first += kTogether) {
    const auto few = values.subspan(first, std::min(kTogether, values.size() - first));
    std::uint64_t left = 0;
    for (const std::int64_t value : few) left |= static_cast<std::uint64_t>(value);
    for (std::size_t byte = 0; left != 0; ++byte, left >>= 8) {
      if ((left & 0xff) == 0) continue;
      unsigned char* plane = into.data() + byte * values.size() + first;
      for (std::size_t i = 0; i < few.size(); ++i)
        plane[i] = static_cast<unsigned char>(static_cast<std::uint64_t>(few[i]) >> 8 * byte);
    }
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
  Compressor usual = make_compressor(kUsual);
  Compressor thorough;  // 9 MB
};

ChunkCodec::ChunkCodec(Effort effort) {
  if (effort == Effort::temporary) return;
  compressors_ = std::make_unique<Compressors>();
  if (effort != Effort::closed) return;
  compressors_->thorough = make_compressor(kThorough);
  thorough_values_ = kThoroughValues;
}

ChunkCodec::~ChunkCodec() = default;

void ChunkCodec::make_room(std::size_t bytes) {
  if (bytes <= room_) return;
  deflated_ = std::make_unique_for_overwrite<unsigned char[]>(bytes);
  room_ = bytes;
}

void ChunkCodec::give_back_memory() noexcept {
  shuffled_ = {};
  deflated_.reset();
  room_ = 0;
}

ChunkCodec::Chunk ChunkCodec::encode(std::span<const std::int64_t> values) {
  shuffle(values, shuffled_);
  std::size_t length = 0;
  bool plain = false;
  if (compressors_) {
    plain = compress(values, length);
  } else {
    make_room(deflate_runs_bound(shuffled_.size()) + kChecksumBytes);
    length = deflate_runs(shuffled_, deflated_.get());
  }
  const std::span<unsigned char> chunk(deflated_.get(), length + kChecksumBytes);
  const std::uint32_t sum = fletcher32(chunk.first(length));
  for (std::size_t i = 0; i < kChecksumBytes; ++i) chunk[length + i] = static_cast<unsigned char>(sum >> (8 * i));
  return {chunk, plain ? kNoShuffle : 0};
}

/// Times in ticks of 10 ms, and values that seldom change, are smaller without it.
bool ChunkCodec::compress(std::span<const std::int64_t> values, std::size_t& length) {
  const std::size_t size = values.size() * kElement;
  const std::size_t most = libdeflate_zlib_compress_bound(nullptr, size);
  make_room(most + kChecksumBytes);
  const auto deflate = [&](const Compressor& compressor, const void* bytes) {
    length = libdeflate_zlib_compress(compressor.get(), bytes, size, deflated_.get(), most);
    if (length == 0) throw std::bad_alloc();  // cannot happen: the worst case fits
    return length;
  };
  const bool plain = deflate(compressors_->quick, values.data()) < deflate(compressors_->quick, shuffled_.data());
  const void* bytes = plain ? static_cast<const void*>(values.data()) : shuffled_.data();
  const bool thorough = thorough_values_ >= values.size();
  if (thorough) thorough_values_ -= values.size();
  deflate(thorough ? compressors_->thorough : compressors_->usual, bytes);
  return plain;
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

std::uint32_t checksum_of(std::span<const unsigned char> chunk) noexcept {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < kChecksumBytes; ++i)
    sum |= static_cast<std::uint32_t>(chunk[chunk.size() - kChecksumBytes + i]) << 8 * i;
  return sum;
}

}  // namespace reveal
