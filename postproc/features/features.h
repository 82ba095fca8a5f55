// The temporal features of a window, one row each in features.cpp. Definitions equal the named references to rounding,
// also for series around 1e9: everything that could cancel is computed from centred values.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace reveal {

/// A window without missing values, prepared once for all features.
class Window {
 public:
  /// Keeps the present values only; assign() may be called again and again without allocating.
  void assign(std::span<const double> values);

  [[nodiscard]] std::size_t size() const { return values_.size(); }
  [[nodiscard]] std::span<const double> values() const { return values_; }
  [[nodiscard]] std::span<const double> centered() const { return centered_; }
  [[nodiscard]] double mean() const { return mean_; }
  [[nodiscard]] double minimum() const { return minimum_; }
  [[nodiscard]] double maximum() const { return maximum_; }
  [[nodiscard]] bool constant() const { return minimum_ == maximum_; }
  [[nodiscard]] double squares() const { return squares_; }  // sum of centred squares
  [[nodiscard]] double variance() const { return squares_ / static_cast<double>(size()); }
  [[nodiscard]] double median() const;
  /// Sum of centered[t] * centered[t + lag].
  [[nodiscard]] double lagged_product(std::size_t lag) const;

 private:
  std::vector<double> values_, centered_;
  mutable std::vector<double> scratch_;
  double mean_ = 0, minimum_ = 0, maximum_ = 0, squares_ = 0;
};

struct Feature {
  std::string_view name;
  std::string_view reference;        // the source of this definition
  double (*compute)(const Window&);  // NaN where the reference is undefined
};

/// The size of features(): some code needs it at compile time.
inline constexpr std::size_t kFeatureCount = 16;

/// MacKinnon's p of the ADF statistic; NaN for NaN.
[[nodiscard]] double adf_p_value(double statistic);

/// The features of dynamic signals.
[[nodiscard]] std::span<const Feature> features();

/// The feature of event counters: the number of events in the window.
[[nodiscard]] const Feature& event_feature();

}  // namespace reveal
