#include "hdf5schema/utc_offset.h"

#include <algorithm>

namespace reveal {

std::int64_t utc_offset_ns(const std::vector<ClockPair>& clocks, const TraceHeader& header, std::int64_t first_ns) {
  if (clocks.empty()) return header.begin_utc_ns - first_ns;
  std::vector<std::int64_t> offsets;
  offsets.reserve(clocks.size());
  for (const ClockPair& pair : clocks) offsets.push_back(pair.utc_ns - pair.monotonic_ns);
  // The lower median: with two pairs around a step, the one the job began with.
  const auto middle = offsets.begin() + static_cast<std::ptrdiff_t>((offsets.size() - 1) / 2);
  if (offsets.size() == 2) return offsets.front();
  std::nth_element(offsets.begin(), middle, offsets.end());
  return *middle;
}

}  // namespace reveal
