// Whole numbers out of a file's JSON.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "hdf5schema/basics/error.h"

namespace reveal {

/// Nothing for a fraction, or a number that does not fit: they would be cast with an undefined result.
template <typename Number, typename Json>
[[nodiscard]] std::optional<Number> whole_number_if_any(const Json& json) {
  bool fits = false;
  if (json.is_number_unsigned()) {
    fits = json.template get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<Number>::max());
  } else if (json.is_number_integer() && std::is_signed_v<Number>) {
    fits = json.template get<std::int64_t>() >= static_cast<std::int64_t>(std::numeric_limits<Number>::min());
  }
  return fits ? std::optional<Number>(json.template get<Number>()) : std::nullopt;
}

/// Throws Error instead.
template <typename Number, typename Json>
[[nodiscard]] Number whole_number(const Json& json) {
  const std::optional<Number> number = whole_number_if_any<Number>(json);
  if (!number) throw Error("a number is out of range: " + json.dump().substr(0, 40));
  return *number;
}

}  // namespace reveal
