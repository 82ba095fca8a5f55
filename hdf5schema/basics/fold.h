// Lines of a terminal: words that do not fit go on below.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace reveal {

/// `label`, padded to `column`, and the words of `text` behind it in lines of at most `width`, the further ones
/// indented to the column; a longer word has a line of its own.
[[nodiscard]] std::string folded(std::string_view label, std::string_view text, std::size_t column, std::size_t width);

/// The same behind `first`, which takes `used` columns of its line: more than its bytes are, or less if it is painted.
/// `size_of`: the columns of a word.
[[nodiscard]] std::string folded_behind(std::string first, std::size_t used, std::string_view text, std::size_t column,
                                        std::size_t width, std::size_t (*size_of)(std::string_view));

}  // namespace reveal
