// The usual value of a feature at this time of day, from the other days: the load of servers follows the day of their
// users.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace reveal {

class DailyBaseline {
 public:
  /// For `windows` windows, `windows_per_day` of them a day (need not be whole).
  DailyBaseline(std::size_t windows, double windows_per_day);

  /// Four days at least: the median over the others must outvote one strange day.
  [[nodiscard]] static bool applies(std::size_t windows, double windows_per_day);

  struct Fit {
    double share = 0;      // share of the median that is taken off: 0, 1/4, 1/2, 3/4 or 1, the one that leaves least
    double explained = 0;  // 1 - (rest / original)^2 of clipped mean deviations
  };
  /// `deviation`: finite, around the median over all windows. Takes the usual value at this time of day off it; a
  /// window's own day has no part in the usual value.
  Fit take_off(std::span<double> deviation);

 private:
  std::vector<std::ptrdiff_t> offsets_;  // the same time on other days, and its neighbours
  std::vector<double> others_, usual_;
};

}  // namespace reveal
