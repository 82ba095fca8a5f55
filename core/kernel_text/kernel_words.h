// The words and numbers of kernel texts. Inline, because they are cut some thousand times per tick.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hdf5schema/basics/wrapping_sum.h"
#include "hdf5schema/vocabulary.h"

namespace reveal {

/// A 64-bit counter of the kernel as int64: the kernel's unsigned values wrap to their low 63 bits, digits only.
/// Nothing if the word is no number, or one that does not fit into 64 bits: then it is none of the kernel's.
[[nodiscard]] inline bool parse_counter(std::string_view word, std::int64_t& value) noexcept {
  constexpr std::size_t kLongest = 20;  // digits of 2^64 - 1
  if (word.empty() || word.size() > kLongest) return false;
  std::uint64_t number = 0;
  for (const char digit : word) {
    if (digit < '0' || digit > '9') return false;
    number = number * 10 + static_cast<std::uint64_t>(digit - '0');
  }
  if (word.size() == kLongest && word > "18446744073709551615") return false;
  value = static_cast<std::int64_t>(number & 0x7fff'ffff'ffff'ffffULL);
  return true;
}

/// Whether power/runtime_status says that the device sleeps: reading other files of it may wake it up.
[[nodiscard]] inline bool sleeps(std::string_view runtime_status) noexcept {
  return runtime_status == "suspended" || runtime_status == "suspending";
}

/// Converts to a finer unit; kMissing if the result does not fit into 64 bits: no counter has come that far.
[[nodiscard]] inline std::int64_t scaled(std::int64_t value, std::int64_t factor) noexcept {
  std::int64_t product = 0;
  return __builtin_mul_overflow(value, factor, &product) ? kMissing : product;
}

/// The number that a text begins with and that has its first line for itself.
[[nodiscard]] inline bool parse_number_file(std::string_view text, std::int64_t& value) noexcept {
  return parse_counter(text.substr(0, text.find('\n')), value);
}

/// Cuts the next blank-separated word off a line.
[[nodiscard]] inline std::string_view cut_word(std::string_view& rest) noexcept {
  std::size_t begin = 0;
  while (begin < rest.size() && (rest[begin] == ' ' || rest[begin] == '\t')) ++begin;
  std::size_t end = begin;
  while (end < rest.size() && rest[end] != ' ' && rest[end] != '\t') ++end;
  const std::string_view word = rest.substr(begin, end - begin);
  rest.remove_prefix(end);
  return word;
}

inline void skip_words(std::string_view& rest, int count) noexcept {
  for (; count > 0; --count) static_cast<void>(cut_word(rest));
}

}  // namespace reveal
