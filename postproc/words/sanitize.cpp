#include "postproc/words/sanitize.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>

namespace reveal {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr char kEscape = '\x1b';

struct Character {
  char32_t code = 0;
  std::size_t bytes = 1;
  bool valid = false;
};

// Strict: overlong forms, surrogates and everything beyond U+10FFFF are broken bytes.
Character decode(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  if (byte(0) < 0x80) return {byte(0), 1, true};
  const std::size_t bytes = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < bytes) return {};
  char32_t code = byte(0) & (0xFF >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3F);
  }
  if ((bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000)) return {};
  if ((code >= 0xD800 && code <= 0xDFFF) || code > 0x10FFFF) return {};
  return {code, bytes, true};
}

struct CodeRange {
  char32_t first, last;
};

// They reorder the following text on the screen, or hide in it.
constexpr CodeRange kInvisible[] = {
    {0x00AD, 0x00AD},    // soft hyphen
    {0x061C, 0x061C},    // Arabic letter mark
    {0x180E, 0x180E},    // Mongolian vowel separator
    {0x200B, 0x200F},    // spaces without width, marks of direction
    {0x202A, 0x202E},    // embeddings and overrides of direction
    {0x2060, 0x2069},    // joiners, isolates
    {0xFEFF, 0xFEFF},    // byte order mark
    {0xFFF9, 0xFFFB},    // annotations
    {0xE0000, 0xE007F},  // tags
};

constexpr bool is_invisible(char32_t code) noexcept {
  if (code < kInvisible[0].first) return false;
  return std::any_of(std::begin(kInvisible), std::end(kInvisible),
                     [code](const CodeRange& range) { return code >= range.first && code <= range.last; });
}

constexpr bool is_control(char32_t code) noexcept {
  return code < 0x20 || (code >= 0x7F && code <= 0x9F) || code == 0x2028 || code == 0x2029;
}

// ECMA-48: CSI ends with a byte from '@' to '~', OSC with BEL or ESC; other sequences are two bytes long.
std::size_t escape_length(std::string_view text) noexcept {
  if (text.size() < 2) return 1;
  std::size_t end = 2;
  if (text[1] == '[') {
    while (end < text.size() && text[end] >= ' ' && text[end] <= '?') ++end;
    return end < text.size() && text[end] >= '@' && text[end] <= '~' ? end + 1 : end;
  }
  if (text[1] == ']') {
    while (end < text.size() && text[end] != '\a' && text[end] != kEscape) ++end;
    return end < text.size() && text[end] == '\a' ? end + 1 : end;
  }
  return text[1] >= ' ' && text[1] <= '~' ? 2 : 1;
}

std::string_view entity(char c) noexcept {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

}  // namespace

std::string printable(std::string_view text, std::size_t limit) {
  std::string line;
  std::size_t shown = 0;
  std::size_t ellipsis = 0;  // where to cut if more follows
  while (!text.empty()) {
    if (text.front() == kEscape) {
      text.remove_prefix(escape_length(text));
      continue;
    }
    const Character next = decode(text);
    const std::string_view bytes = text.substr(0, next.bytes);
    text.remove_prefix(next.bytes);
    if (next.valid && is_invisible(next.code)) continue;
    if (shown + 3 <= limit) ellipsis = line.size();
    if (shown == limit) return line.substr(0, ellipsis) + "...";
    ++shown;
    if (!next.valid) {
      line += kReplacement;
    } else if (is_control(next.code)) {
      line += ' ';
    } else {
      line += bytes;
    }
  }
  return line;
}

std::string without_controls(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const Character next = decode(text);
    const bool harmless = next.valid && !is_invisible(next.code) && (next.code < 0x7F || !is_control(next.code));
    if (harmless) {
      shown += text.substr(0, next.bytes);
    } else if (next.valid) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(next.code));
      shown += escaped;
    } else {
      shown += kReplacement;
    }
    text.remove_prefix(next.bytes);
  }
  return shown;
}

std::string html(std::string_view text, std::size_t limit) {
  std::string escaped;
  for (const char c : printable(text, limit)) {
    const std::string_view replaced = entity(c);
    if (replaced.empty()) {
      escaped += c;
    } else {
      escaped += replaced;
    }
  }
  return escaped;
}

std::size_t columns(std::string_view utf8) noexcept {
  std::size_t count = 0;
  for (const char c : utf8) count += (static_cast<std::uint8_t>(c) & 0xC0) != 0x80;
  return count;
}

}  // namespace reveal
