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

/// The same without digits behind the hundredths, for cpus and seconds: "0.58", "14.2", "< 0.01".
[[nodiscard]] std::string hundredths(double value);

/// "62.0", never "-0.0": for seconds of a job, which may begin a little before it.
[[nodiscard]] std::string one_decimal(double value);
/// "1.00", "0.05", never "-0.00": for numbers that are compared with each other.
[[nodiscard]] std::string two_decimals(double value);
/// How times that are about as long as `typical` are printed beside each other: in seconds or milliseconds.
[[nodiscard]] Scale time_scale(double typical_seconds);
/// "1.00 s", "52.13 ms"; from two minutes on "5 min 10 s".
[[nodiscard]] std::string compared_time(double seconds, const Scale& scale);

/// The digits that a reader or a chart needs: 0.98214 -> 0.9821.
[[nodiscard]] double four_digits(double value);

/// "1.5 GiB", "312 MiB/s", "98 %"; "not measured" when absent.
[[nodiscard]] std::string quantity(std::optional<double> value, std::string_view unit);

/// "1 episode", "3 episodes"; of a count that was added up from rates, too: 0.9999 is 1.
[[nodiscard]] std::string counted(double count, std::string_view singular);

/// 86461 s -> "1 d 0 h 1 min".
[[nodiscard]] std::string duration(double seconds);

}  // namespace reveal
