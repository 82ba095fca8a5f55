// Whether an interval stands out from the usual moves of its own series. The scan's unit is white noise, and a series
// that wanders (a slow wave, a trend, a random walk) leaves its range by many such units without any event.
#pragma once

#include <span>

#include "postproc/detect/scan/interval_scan.h"

namespace reveal {

/// Two things must hold of the series with the largest gaps: the mean of these gaps is at least one deviation of the
/// means of pieces as long (a tenth of the samples at most), and most of the distance from the outside lies at the
/// edges. An edge at the border of the block is not known and not counted. `others`, by their begins, are cut out as if
/// the job had never had them.
[[nodiscard]] bool is_distinct(const ScanInput& input, const ScoredInterval& interval,
                               std::span<const ScoredInterval> others, const ScanScale& scale);

}  // namespace reveal
