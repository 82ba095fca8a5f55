// The rhythm of a series: the distance after which it repeats itself.
#pragma once

#include <optional>
#include <span>

namespace reveal {

struct Periodicity {
  double length = 0;    // samples from one repetition to the next
  double error = 0;     // standard error of the length
  double strength = 0;  // correlation of the series with itself one period later, up to 1
  double windows = 0;   // share of the looks that agree
};

/// By autocorrelation, in 4 to 16 windows of the series, most of which must agree. NaN is not measured. Nothing where
/// no rhythm is clear: one of less than five samples, one that is small beside the level of the series, or none.
[[nodiscard]] std::optional<Periodicity> periodicity_of(std::span<const double> series);

}  // namespace reveal
