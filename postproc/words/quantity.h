// Numbers with their units as a person reads them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace reveal {

inline constexpr std::string_view kNotMeasured = "not measured";

/// How values of a unit are printed when the largest of them is about this big: printed = value * factor, then `unit`.
struct Scale {
  double factor = 1;
  std::string unit;  // "" for plain counts
};
[[nodiscard]] Scale scale_for(double largest, std::string_view unit);
/// "1.5 GiB" of 1610612736; "not measured".
[[nodiscard]] std::string scaled(double value, const Scale& scale);

/// Three significant digits: "0.982", "14.2", "1,200".
[[nodiscard]] std::string number(double value);

/// What a person or a chart needs of a number: 0.98214 -> 0.9821.
[[nodiscard]] double four_digits(double value);

/// "1.5 GiB", "312 MiB/s", "98 %"; "not measured" when absent.
[[nodiscard]] std::string quantity(std::optional<double> value, std::string_view unit);

/// "1 episode", "3 episodes".
[[nodiscard]] std::string counted(double count, std::string_view singular);

/// 86461 s -> "1 d 0 h 1 min".
[[nodiscard]] std::string duration(double seconds);

}  // namespace reveal
