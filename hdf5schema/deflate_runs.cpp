#include "hdf5schema/deflate_runs.h"

#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace reveal {
namespace {

constexpr std::size_t kShortest = 3;  // length of a match
constexpr std::size_t kLongest = 258;

struct Code {
  std::uint32_t bits = 0;  // the first to be written lowest
  std::uint32_t count = 0;
};

/// Huffman codes are written from their highest bit on.
constexpr std::uint32_t reversed(std::uint32_t code, std::uint32_t count) {
  std::uint32_t bits = 0;
  for (std::uint32_t i = 0; i < count; ++i) bits |= ((code >> i) & 1) << (count - 1 - i);
  return bits;
}

/// RFC 1951, 3.2.6.
/// https://www.rfc-editor.org/rfc/rfc1951
constexpr Code fixed_code(std::uint32_t symbol) {
  if (symbol < 144) return {reversed(0x30 + symbol, 8), 8};
  if (symbol < 256) return {reversed(0x190 + symbol - 144, 9), 9};
  if (symbol < 280) return {reversed(symbol - 256, 7), 7};
  return {reversed(0xc0 + symbol - 280, 8), 8};
}
constexpr std::uint32_t kEnd = 256;

constexpr auto kLiterals = [] {
  std::array<Code, 256> codes{};
  for (std::uint32_t i = 0; i < codes.size(); ++i) codes[i] = fixed_code(i);
  return codes;
}();

/// By length: its code, its extra bits, and the distance 1, which is five zeros. RFC 1951, 3.2.5: from 11 on four codes
/// share each number of extra bits; 258 has a code of its own.
constexpr auto kMatches = [] {
  std::array<Code, kLongest + 1> codes{};
  std::uint32_t symbol = 257;
  std::uint32_t extra = 0;
  for (std::uint32_t length = kShortest; length < kLongest; ++symbol) {
    if (symbol >= 265 && (symbol - 265) % 4 == 0) ++extra;
    const Code code = fixed_code(symbol);
    for (std::uint32_t i = 0; i < (1U << extra) && length < kLongest; ++i, ++length)
      codes[length] = {code.bits | i << code.count, code.count + extra + 5};
  }
  const Code longest = fixed_code(285);
  codes[kLongest] = {longest.bits, longest.count + 5};
  return codes;
}();

class BitWriter {
 public:
  explicit BitWriter(unsigned char* to) : to_(to) {}

  void put(Code code) {
    pending_ |= std::uint64_t{code.bits} << count_;
    count_ += code.count;
    if (count_ < 32) return;
    for (int i = 0; i < 4; ++i) *to_++ = static_cast<unsigned char>(pending_ >> 8 * i);
    pending_ >>= 32;
    count_ -= 32;
  }
  /// The rest, filled up to a byte.
  unsigned char* finish() {
    for (; count_ > 0; count_ -= std::min(count_, 8U), pending_ >>= 8) *to_++ = static_cast<unsigned char>(pending_);
    return to_;
  }

 private:
  unsigned char* to_;
  std::uint64_t pending_ = 0;
  std::uint32_t count_ = 0;
};

/// How many bytes from `at` on are like the first.
std::size_t run_length(std::span<const unsigned char> bytes, std::size_t at) {
  const unsigned char* begin = bytes.data() + at;
  const unsigned char* const end = bytes.data() + bytes.size();
  const std::uint64_t same = *begin * std::uint64_t{0x0101'0101'0101'0101};
  const unsigned char* here = begin + 1;
  for (std::uint64_t eight = 0; end - here >= 8; here += 8) {
    std::memcpy(&eight, here, sizeof eight);
    if (eight != same) break;
  }
  while (here < end && *here == *begin) ++here;
  return static_cast<std::size_t>(here - begin);
}

}  // namespace

std::size_t deflate_runs(std::span<const unsigned char> bytes, unsigned char* to) noexcept {
  const unsigned char* const begin = to;
  *to++ = 0x78;  // deflate, a window of 32 KiB, quickest
  *to++ = 0x01;
  BitWriter writer(to);
  writer.put({0b011, 3});  // the last block; fixed codes
  for (std::size_t at = 0; at < bytes.size();) {
    const Code literal = kLiterals[bytes[at]];
    std::size_t left = run_length(bytes, at);
    at += left;
    writer.put(literal);
    for (--left; left >= kShortest;) {
      const std::size_t length = std::min(left, kLongest);
      writer.put(kMatches[length]);
      left -= length;
    }
    for (; left > 0; --left) writer.put(literal);
  }
  writer.put(fixed_code(kEnd));
  to = writer.finish();
  const std::uint32_t sum = libdeflate_adler32(1, bytes.data(), bytes.size());
  for (int shift = 24; shift >= 0; shift -= 8) *to++ = static_cast<unsigned char>(sum >> shift);
  return static_cast<std::size_t>(to - begin);
}

}  // namespace reveal
