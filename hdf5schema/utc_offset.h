// The offset between the two clocks of a trace.
#pragma once

#include <cstdint>
#include <vector>

#include "hdf5schema/trace.h"

namespace reveal {

/// Median of utc - monotonic over the pairs; the header's begin at `first_ns` when there is no pair.
[[nodiscard]] std::int64_t utc_offset_ns(const std::vector<ClockPair>& clocks, const TraceHeader& header,
                                         std::int64_t first_ns);

}  // namespace reveal
