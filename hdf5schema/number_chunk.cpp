#include "hdf5schema/number_chunk.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hdf5schema/basics/not_measured.h"
#include "hdf5schema/trace.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace reveal {
namespace {

constexpr std::size_t kNumber = sizeof(std::int64_t);
/// Numbers that are looked at together: short enough for the first cache, long enough that most are all zero.
constexpr std::size_t kTogether = 512;

/// Comparing a stretch with itself, moved by one, shows whether it is all zero.
bool all_zero(const unsigned char* bytes, std::size_t count) noexcept {
  return bytes[0] == 0 && std::memcmp(bytes, bytes + 1, count - 1) == 0;
}

bool all_planes_zero(const unsigned char* plane, std::size_t stride, std::size_t count) noexcept {
  std::size_t byte = 0;
  while (byte < kNumber && all_zero(plane + byte * stride, count)) ++byte;
  return byte == kNumber;
}

#ifdef __SSE2__
constexpr std::size_t kWide = 16;

/// Bytes of 16 numbers, one plane after the other, into the numbers: pairs of bytes, then fours, then eights.
void transpose(const unsigned char* plane, std::size_t stride, std::byte* to) noexcept {
  const auto load = [&](std::size_t byte) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(plane + byte * stride));
  };
  __m128i pairs[2][4];  // the first eight numbers, and the other eight
  for (std::size_t i = 0; i < 4; ++i) {
    const __m128i low = load(2 * i);
    const __m128i high = load(2 * i + 1);
    pairs[0][i] = _mm_unpacklo_epi8(low, high);
    pairs[1][i] = _mm_unpackhi_epi8(low, high);
  }
  auto* out = reinterpret_cast<__m128i*>(to);
  const auto store = [&out](__m128i low, __m128i high) {
    _mm_storeu_si128(out++, _mm_unpacklo_epi32(low, high));
    _mm_storeu_si128(out++, _mm_unpackhi_epi32(low, high));
  };
  for (const auto& half : pairs) {
    store(_mm_unpacklo_epi16(half[0], half[1]), _mm_unpacklo_epi16(half[2], half[3]));
    store(_mm_unpackhi_epi16(half[0], half[1]), _mm_unpackhi_epi16(half[2], half[3]));
  }
}
#endif

void gather(const unsigned char* plane, std::size_t stride, std::span<std::byte> to) noexcept {
  const std::size_t count = to.size() / kNumber;
  std::size_t i = 0;
#ifdef __SSE2__
  for (; i + kWide <= count; i += kWide) transpose(plane + i, stride, to.data() + i * kNumber);
#endif
  for (; i < count; ++i) {
    std::uint64_t number = 0;
    for (std::size_t byte = 0; byte < kNumber; ++byte)
      number |= static_cast<std::uint64_t>(plane[byte * stride + i]) << 8 * byte;
    std::memcpy(to.data() + i * kNumber, &number, kNumber);
  }
}

/// `finish` gets each stretch that is not all zero, while it is in the cache.
template <class Finish>
void unshuffle(std::span<const unsigned char> shuffled, std::size_t first, std::span<std::byte> to,
               const Finish& finish) noexcept {
  const std::size_t stride = shuffled.size() / kNumber;
  const std::size_t count = to.size() / kNumber;
  for (std::size_t done = 0; done < count; done += kTogether) {
    const std::size_t few = std::min(kTogether, count - done);
    const unsigned char* plane = shuffled.data() + first + done;
    const auto stretch = to.subspan(done * kNumber, few * kNumber);
    if (all_planes_zero(plane, stride, few)) {
      std::memset(stretch.data(), 0, stretch.size());
    } else {
      gather(plane, stride, stretch);
      finish(stretch);
    }
  }
}

/// In place. The integer 0 and the real 0 have the same bits.
void to_reals(std::span<std::byte> numbers) noexcept {
  for (std::size_t at = 0; at < numbers.size(); at += kNumber) {
    std::int64_t number = 0;
    std::memcpy(&number, numbers.data() + at, kNumber);
    const double real = number == kMissing ? kNaN : static_cast<double>(number);
    std::memcpy(numbers.data() + at, &real, kNumber);
  }
}

}  // namespace

void NumberChunk::copy(std::size_t first, std::span<std::byte> to) const noexcept {
  if (shuffled) {
    unshuffle(bytes, first, to, [](std::span<std::byte>) {});
  } else {
    std::memcpy(to.data(), bytes.data() + first * kNumber, to.size());
  }
}

void NumberChunk::copy_as_reals(std::size_t first, std::span<std::byte> to) const noexcept {
  if (shuffled) {
    unshuffle(bytes, first, to, to_reals);
  } else {
    copy(first, to);
    to_reals(to);
  }
}

void unshuffle_numbers(std::span<const unsigned char> shuffled, std::span<std::byte> to) noexcept {
  unshuffle(shuffled, 0, to, [](std::span<std::byte>) {});
}

}  // namespace reveal
