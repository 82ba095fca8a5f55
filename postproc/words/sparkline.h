// A course of values as a word of block characters, for terminals that show UTF-8.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reveal {

/// "▁▃█": the last `width` values, from 0 to the largest; `gap` where nothing was measured.
[[nodiscard]] std::string sparkline(std::span<const double> values, std::size_t width, std::string_view gap = " ");

/// Means of `width` parts of about the same length; as many values as there are if these are fewer. NaN where nothing
/// was measured.
[[nodiscard]] std::vector<double> reduced(std::span<const double> values, std::size_t width);

/// Whether a locale, as the environment names it ("de_DE.UTF-8"), is one of UTF-8.
[[nodiscard]] bool is_utf8_locale(std::string_view name) noexcept;
/// That of this process's environment.
[[nodiscard]] bool writes_utf8();

}  // namespace reveal
