#include "hdf5schema/utc_offset.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

namespace reveal {
namespace {

/// Pairs between which the wall clock was not set.
struct Stretch {
  std::vector<std::int64_t> offsets;
  std::int64_t least_error_ns = std::numeric_limits<std::int64_t>::max();
};

std::vector<Stretch> stretches_of(const std::vector<ClockPair>& clocks) {
  std::vector<Stretch> stretches;
  for (const ClockPair& pair : clocks) {
    const std::int64_t offset = pair.utc_ns - pair.monotonic_ns;
    if (stretches.empty() || std::abs(offset - stretches.back().offsets.back()) > kClockStepNs)
      stretches.emplace_back();
    stretches.back().offsets.push_back(offset);
    stretches.back().least_error_ns = std::min(stretches.back().least_error_ns, pair.max_error_ns);
  }
  return stretches;
}

/// The lower one of two in the middle.
std::int64_t median(std::vector<std::int64_t> offsets) {
  const auto middle = offsets.begin() + static_cast<std::ptrdiff_t>((offsets.size() - 1) / 2);
  std::nth_element(offsets.begin(), middle, offsets.end());
  return *middle;
}

/// Where the clock was set between two pairs, that with which the job began.
std::int64_t usual_offset(const std::vector<Stretch>& stretches) {
  std::vector<std::int64_t> all;
  for (const Stretch& each : stretches) all.insert(all.end(), each.offsets.begin(), each.offsets.end());
  return all.size() == 2 ? all.front() : median(std::move(all));
}

}  // namespace

std::int64_t utc_offset_ns(const std::vector<ClockPair>& clocks, const TraceHeader& header, std::int64_t first_ns) {
  if (clocks.empty()) return header.begin_utc_ns - first_ns;
  const std::vector<Stretch> stretches = stretches_of(clocks);
  const std::int64_t usual = usual_offset(stretches);
  const auto has_usual = [usual](const Stretch& stretch) {
    return std::find(stretch.offsets.begin(), stretch.offsets.end(), usual) != stretch.offsets.end();
  };
  const Stretch& longest = *std::find_if(stretches.begin(), stretches.end(), has_usual);
  const Stretch& best = *std::min_element(stretches.begin(), stretches.end(), [](const Stretch& a, const Stretch& b) {
    return a.least_error_ns < b.least_error_ns;
  });
  return best.least_error_ns < longest.least_error_ns / 2 ? median(best.offsets) : usual;
}

}  // namespace reveal
