// Turns the kernel's way of naming into ours, for keys that no table names.
#pragma once

#include <string>
#include <string_view>

namespace reveal {

/// "Active(anon)" -> "active_anon", "AnonHugePages" -> "anon_huge_pages", "SUnreclaim" -> "sunreclaim".
[[nodiscard]] std::string snake_case(std::string_view kernel_key);

/// "TCP" -> "tcp".
[[nodiscard]] std::string lower_case(std::string_view text);

}  // namespace reveal
