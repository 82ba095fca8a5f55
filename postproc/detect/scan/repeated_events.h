// Events that happen two or three times: each hides the others from the interval scan, since each lies within the range
// that the others open.
#pragma once

#include <cstddef>
#include <vector>

#include "postproc/detect/scan/interval_scan.h"

namespace reveal {

inline constexpr double kRepeatLikeness = 0.8;  // cosine of the changes in them
inline constexpr std::size_t kMostRepeats = 3;  // more like ones belong to the job

/// The score of one interval as if the job had never had the samples of the others: an event that happens twice hides
/// itself, since each time lies within the range that the other one opens. `others`: by their begins.
[[nodiscard]] double score_without(const ScanInput& input, const ScoredInterval& interval,
                                   const std::vector<ScoredInterval>& others, const ScanScale& scale);

/// Groups of two or three like intervals that lie beyond all the rest, their scores without each other. More than three
/// like ones belong to the job.
[[nodiscard]] std::vector<std::vector<ScoredInterval>> find_repeats(ReferenceMeans& reference, const ScanScale& scale,
                                                                    double least);

}  // namespace reveal
