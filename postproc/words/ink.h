// Colours of a terminal. The caller decides whether there are any: CommonOptions::style().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace reveal {

enum class Ink : std::uint8_t { plain, bold, dim, red, yellow, green };

/// The text in this colour if `colour` is set, else as it is.
[[nodiscard]] std::string painted(std::string_view text, Ink ink, bool colour);

}  // namespace reveal
