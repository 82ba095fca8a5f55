// The files inside every HTML report, embedded at build time by site-config/embed.cmake.
#pragma once

#include <string_view>

namespace reveal::assets {

[[nodiscard]] std::string_view dygraphs_js() noexcept;
[[nodiscard]] std::string_view dygraphs_css() noexcept;
[[nodiscard]] std::string_view report_js() noexcept;
[[nodiscard]] std::string_view report_css() noexcept;

}  // namespace reveal::assets
