// Intervals in which rare events are more frequent than in the rest of the run, measured by what can bring one about:
// losses per segment sent. A few events in a second are no level that find_excursions() could compare sample by
// sample, but their sums over an interval are.
#pragma once

#include <span>
#include <vector>

#include "postproc/diagnose/excursion.h"

namespace reveal {

struct CountExcursion {
  Interval at;
  double count = 0;     // inside
  double exposure = 0;  // inside
  double usual = 0;     // count per exposure outside of all of them

  [[nodiscard]] double share() const { return count / exposure; }
};

/// Returns the intervals, clearest first (several bursts in the place of the interval that they form), that events with
/// one chance per exposure form with a probability of at most `max_chance`, wherever in the series. A count is below
/// zero where earlier ones are taken back. Missing samples belong to neither side.
[[nodiscard]] std::vector<CountExcursion> find_count_excursions(std::span<const double> counts,
                                                                std::span<const double> exposure, double max_chance);

}  // namespace reveal
