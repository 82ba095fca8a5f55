// The words and numbers of kernel texts. Inline, because they are cut some thousand times per tick.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

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
