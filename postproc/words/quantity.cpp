#include "postproc/words/quantity.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

namespace reveal {
namespace {

constexpr double kKibi = 1024;
constexpr double kLongInSeconds = 120;  // from here on in minutes

/// From `at_least` on (by magnitude) a value of `unit` is printed as value * factor `shown`.
struct Step {
  std::string_view unit;
  double at_least;
  double factor;
  std::string_view shown;
};

// Largest step first; the last of a unit takes everything below.
constexpr Step kSteps[] = {
    {"bytes", kKibi* kKibi* kKibi* kKibi, 1 / (kKibi * kKibi * kKibi * kKibi), "TiB"},
    {"bytes", kKibi* kKibi* kKibi, 1 / (kKibi * kKibi * kKibi), "GiB"},
    {"bytes", kKibi* kKibi, 1 / (kKibi * kKibi), "MiB"},
    {"bytes", kKibi, 1 / kKibi, "KiB"},
    {"bytes", 0, 1, "bytes"},
    {"ns", 1e9, 1e-9, "s"},
    {"ns", 1e6, 1e-6, "ms"},
    {"ns", 1e3, 1e-3, "us"},
    {"ns", 0, 1, "ns"},
    // A time counter per second: cpu time, waiting time. 0.98 seconds in each second.
    {"ns/s", 0, 1e-9, "s each second"},
    {"s/s", 0, 1, "s each second"},
    {"s", 0.1, 1, "s"},
    {"s", 0, 1e3, "ms"},
    {"Hz", 1e9, 1e-9, "GHz"},
    {"Hz", 1e6, 1e-6, "MHz"},
    {"Hz", 1e3, 1e-3, "kHz"},
    {"Hz", 0, 1, "Hz"},
    {"W", 1e3, 1e-3, "kW"},
    {"W", 0, 1, "W"},
    {"J", 1e3, 1e-3, "kJ"},
    {"J", 0, 1, "J"},
    {"J/s", 0, 1, "W"},
    {"uJ/s", 0, 1e-6, "W"},
    {"count", 0, 1, ""},
    {"count/s", 0, 1, "/s"},
    {"ratio", 0, 1, ""},
    {"percent", 0, 1, "%"},
    {"Cel", 0, 1, "C"},
};

constexpr std::pair<std::string_view, std::string_view> kSingulars[] = {
    {"bytes", "byte"}, {"cpus", "cpu"}, {"processes", "process"}, {"threads waiting", "thread waiting"}};

}  // namespace

Scale scale_for(double largest, std::string_view unit) {
  constexpr double kRoundedUp = 0.9995;  // share of a step that three digits round to it: 999.6 ms is 1 s
  const double magnitude = std::abs(largest);
  const std::string_view base = unit.ends_with("/s") ? unit.substr(0, unit.size() - 2) : unit;
  for (const std::string_view wanted : {unit, base}) {
    for (const Step& step : kSteps) {
      const bool zero = magnitude == 0 && step.factor == 1;  // 0 s, not 0 ms
      if (step.unit != wanted || (magnitude < kRoundedUp * step.at_least && !zero)) continue;
      std::string shown(step.shown);
      if (wanted != unit) shown += "/s";
      return {step.factor, shown};
    }
  }
  return {1, std::string(unit)};
}

std::string scaled(double value, const Scale& scale) {
  if (!std::isfinite(value)) return std::string(kNotMeasured);
  const std::string shown = scale.unit == "cpus" ? hundredths(value) : number(value * scale.factor);
  if (scale.unit.empty() || scale.unit.front() == '/') return shown + scale.unit;
  for (const auto& [several, one] : kSingulars) {
    if (shown == "1" && scale.unit == several) return fmt::format("1 {}", one);
  }
  return shown + " " + scale.unit;
}

std::string number(double value) {
  if (!std::isfinite(value)) return std::string(kNotMeasured);
  const double magnitude = std::abs(value);
  if (magnitude == 0) return "0";  // also without the sign of a zero
  if (magnitude >= 1e15 || magnitude < 999.5) return fmt::format("{:.3g}", value);
  std::string digits = fmt::format("{:.0f}", magnitude);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return value < 0 ? "-" + digits : digits;
}

std::string hundredths(double value) {
  if (!std::isfinite(value) || value == 0) return number(value);
  if (std::abs(value) < 0.005) return value < 0 ? "> -0.01" : "< 0.01";
  return number(std::round(value * 100) / 100);
}

std::string one_decimal(double value) {
  const std::string shown = fmt::format("{:.1f}", value);
  return shown == "-0.0" ? "0.0" : shown;
}

std::string two_decimals(double value) {
  if (!std::isfinite(value)) return std::string(kNotMeasured);
  const std::string shown = fmt::format("{:.2f}", value);
  return shown == "-0.00" ? "0.00" : shown;
}

Scale time_scale(double typical_seconds) {
  constexpr double kMilli = 1e-3;
  constexpr double kLeastInSeconds = 0.5;
  if (std::abs(typical_seconds) < kLeastInSeconds) return {1 / kMilli, "ms"};
  return {1, "s"};
}

std::string compared_time(double seconds, const Scale& scale) {
  return seconds < kLongInSeconds ? two_decimals(seconds * scale.factor) + " " + scale.unit : duration(seconds);
}

double four_digits(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double scale = std::pow(10, 3 - std::floor(std::log10(std::abs(value))));
  const double rounded = std::round(value * scale) / scale;
  return std::isfinite(rounded) ? rounded : value;
}

std::string quantity(std::optional<double> value, std::string_view unit) {
  if (!value || !std::isfinite(*value)) return std::string(kNotMeasured);
  return scaled(*value, scale_for(*value, unit));
}

std::string counted(double count, std::string_view singular) {
  const std::string shown = number(count);
  return fmt::format("{} {}{}", shown, singular, shown == "1" ? "" : "s");
}

std::string duration(double seconds) {
  if (!(seconds >= 0)) return "unknown time";
  if (seconds < kLongInSeconds) return hundredths(seconds) + " s";
  const auto whole = static_cast<std::int64_t>(std::min(seconds + 0.5, 1e15));
  if (whole < 3600 && whole % 60 == 0) return fmt::format("{} min", whole / 60);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
  return fmt::format("{} d {} h {} min", whole / 86400, whole / 3600 % 24, whole / 60 % 60);
}

}  // namespace reveal
