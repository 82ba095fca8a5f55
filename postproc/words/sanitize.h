// Job names, commands and tags are whatever a user typed. Everything a report prints goes through here first: a
// terminal must not see control characters, a browser must not see markup, and a line must end.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace reveal {

/// Valid UTF-8 on one line: escape sequences and what is invisible or turns the direction are dropped, other control
/// characters become blanks, broken bytes U+FFFD. Longer than `limit` characters: cut, with "..." at the end.
[[nodiscard]] std::string printable(std::string_view text, std::size_t limit = 600);

/// Whole text of ours, with its lines and colours, as a terminal may have it: DEL, C1 controls and invisible characters
/// as JSON escapes them (\u009b).
[[nodiscard]] std::string without_controls(std::string_view text);

/// printable(), and inert as HTML text or attribute value.
[[nodiscard]] std::string html(std::string_view text, std::size_t limit = 600);

/// Characters, not bytes.
[[nodiscard]] std::size_t columns(std::string_view utf8) noexcept;

}  // namespace reveal
