// The offset between the two clocks of a trace.
#pragma once

#include <cstdint>
#include <vector>

#include "hdf5schema/trace.h"

namespace reveal {

/// An offset that moves by more than this between pairs shows a wall clock that was set, not one that drifts.
inline constexpr std::int64_t kClockStepNs = 50'000'000;

/// Median of utc - monotonic over the pairs; the header's begin at `first_ns` when there is no pair. Where the clock
/// was set, and the kernel's bound of its error was less than half as high before or after that, the median of these
/// pairs: the bound falls once a wrong clock is corrected, and rises to 16 s when a user sets it.
[[nodiscard]] std::int64_t utc_offset_ns(const std::vector<ClockPair>& clocks, const TraceHeader& header,
                                         std::int64_t first_ns);

}  // namespace reveal
