// Whole numbers out of a file's JSON.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "hdf5schema/basics/error.h"

namespace reveal {

/// A fraction, or a number that does not fit, would be cast with an undefined result. Throws Error.
template <typename Number, typename Json>
[[nodiscard]] Number whole_number(const Json& json) {
  bool fits = false;
  if (json.is_number_unsigned()) {
    fits = json.template get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<Number>::max());
  } else if (json.is_number_integer() && std::is_signed_v<Number>) {
    fits = json.template get<std::int64_t>() >= static_cast<std::int64_t>(std::numeric_limits<Number>::min());
  }
  if (!fits) throw Error("a number is out of range: " + json.dump().substr(0, 40));
  return json.template get<Number>();
}

}  // namespace reveal
