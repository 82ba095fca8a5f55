// Names that nobody else has or can predict, from the kernel's random numbers.
#pragma once

#include <sys/random.h>

#include <cstddef>
#include <string>

namespace reveal {

/// Two lower-case hexadecimal digits for each byte, of which there are at most 256. "" if the kernel has no random
/// numbers yet, as while a machine boots: getrandom would wait for them.
[[nodiscard]] inline std::string random_hex(std::size_t bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string raw(bytes, '\0');
  // Up to 256 bytes are complete or none. https://man7.org/linux/man-pages/man2/getrandom.2.html
  if (::getrandom(raw.data(), raw.size(), GRND_NONBLOCK) != static_cast<ssize_t>(raw.size())) return {};
  std::string text;
  text.reserve(2 * raw.size());
  for (const char byte : raw) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 0xf];
  }
  return text;
}

}  // namespace reveal
