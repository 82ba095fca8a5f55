#include "postproc/analysis/faster_readings.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::size_t kMostFasterProbes = 8;
constexpr std::size_t kLongestProbeName = 40;
constexpr double kMostReadings = 1e9;
constexpr std::int64_t kFarthestMark = INT64_MAX / 4;  // sums of times stay numbers

std::int64_t bounded_time(std::int64_t time_ns) {
  return std::clamp(time_ns, -kFarthestMark, kFarthestMark);
}

/// 380 of "4.0 s, 380 additional readings, 12.3 ms"; a trace may hold any text.
double additional_readings(std::string_view text) {
  const std::size_t comma = text.find(", ");
  if (comma == std::string_view::npos) return 0;
  text.remove_prefix(comma + 2);
  const auto count = parse_int(text.substr(0, text.find(' ')));
  return count && *count > 0 ? std::min(static_cast<double>(*count), kMostReadings) : 0;
}

void add_probes(const std::string& text, std::vector<std::string>& probes) {
  for (const std::string& name : split_names(text, " ")) {
    const bool known = std::find(probes.begin(), probes.end(), name) != probes.end();
    if (!known && name.size() <= kLongestProbeName && probes.size() < kMostFasterProbes) probes.push_back(name);
  }
}

}  // namespace

std::optional<NodeFasterReading> faster_reading_of(const NodeTrace& trace) {
  NodeFasterReading faster;
  faster.node = trace.telemetry.node;
  std::int64_t begin = 0, first = 0, last = 0;
  bool is_open = false;
  for (const Event& event : trace.events) {
    if (event.object != "reveal") continue;
    if (event.code == "faster_begin") {
      begin = event.time_ns;
      is_open = true;
      add_probes(event.text, faster.probes);
    } else if (event.code == "faster_end" && is_open && event.time_ns >= begin) {
      if (faster.intervals == 0) first = begin;
      last = event.time_ns;
      faster.intervals += 1;
      faster.seconds += static_cast<double>(event.time_ns) / kSecond - static_cast<double>(begin) / kSecond;
      faster.readings += additional_readings(event.text);
      is_open = false;
    }
  }
  if (faster.intervals == 0) return std::nullopt;
  const std::int64_t offset = bounded_time(trace.utc_minus_monotonic_ns);
  faster.from_first_to_last = {bounded_time(first) + offset, bounded_time(last) + offset};
  return faster;
}

}  // namespace reveal
