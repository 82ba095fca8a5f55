#include "postproc/live/collector_status.h"

#include <cmath>

#include "postproc/json/record.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

constexpr std::size_t kMostClosed = 8;  // as the collector writes them
constexpr std::size_t kLongestChannel = 96;
constexpr std::int64_t kMostIterations = 1'000'000'000'000;
constexpr std::string_view kDirections[] = {"above", "below"};

/// Members of status.json that a watch reads, as they are there.
struct ClosedEpisode {
  EarlierInterval interval;
};

struct StatusText {
  std::optional<double> cpu_percent;
  std::int64_t iterations_planned = 0;
  std::vector<ClosedEpisode> closed;
};

void fields(JsonReader& v, ClosedEpisode& episode) {
  v("begin_utc_ns", episode.interval.begin_utc_ns);
  v("end_utc_ns", episode.interval.end_utc_ns);
  v("channels", episode.interval.channels);
  v("of_channels", episode.interval.of_channels);
  v("farthest", episode.interval.farthest);
  v("direction", episode.interval.direction);
}

void fields(JsonReader& v, StatusText& status) {
  v.schema("schema", "reveal.status/1");
  v("cpu_percent_of_core", status.cpu_percent);
  v("iterations_planned", status.iterations_planned);
  v("closed_episodes", status.closed);
}

bool is_possible(const EarlierInterval& interval) {
  const bool counts = interval.channels > 0 && interval.channels <= interval.of_channels;
  return counts && interval.begin_utc_ns > 0 && interval.begin_utc_ns < interval.end_utc_ns &&
         !interval.farthest.empty();
}

}  // namespace

CollectorStatus parse_collector_status(const std::string& json) {
  StatusText text = parse_record<StatusText>(json, "status.json");
  CollectorStatus status{.cpu_percent = text.cpu_percent, .iterations_planned = 0, .closed = {}};
  if (text.iterations_planned > 0 && text.iterations_planned <= kMostIterations) {
    status.iterations_planned = text.iterations_planned;
  }
  for (ClosedEpisode& one : text.closed) {
    EarlierInterval& interval = one.interval;
    if (!is_possible(interval) || status.closed.size() == kMostClosed) continue;
    interval.farthest = printable(interval.farthest, kLongestChannel);
    if (std::find(std::begin(kDirections), std::end(kDirections), interval.direction) == std::end(kDirections)) {
      interval.direction.clear();
    }
    status.closed.push_back(std::move(interval));
  }
  return status;
}

}  // namespace reveal
