// Enumerators by their names in files and options.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace reveal {

/// `names` in the order of the enumerators, which count from 0.
template <typename Enum>
[[nodiscard]] std::optional<Enum> enumerator_of(std::span<const std::string_view> names,
                                                std::string_view name) noexcept {
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) return std::nullopt;
  return static_cast<Enum>(at - names.begin());
}

/// The other way round.
template <typename Enum>
[[nodiscard]] std::string_view name_in(std::span<const std::string_view> names, Enum value) noexcept {
  return names[static_cast<std::size_t>(value)];
}

}  // namespace reveal
