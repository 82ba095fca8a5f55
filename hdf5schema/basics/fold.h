// Lines of a terminal: words that do not fit go on below.
#pragma once

#include <string>
#include <string_view>

namespace reveal {

/// `label`, padded to `column`, and the words of `text` behind it in lines of at most `width`, the further ones
/// indented to the column; a longer word has a line of its own.
[[nodiscard]] std::string folded(std::string_view label, std::string_view text, std::size_t column, std::size_t width);

}  // namespace reveal
