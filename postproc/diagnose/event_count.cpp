#include "postproc/diagnose/event_count.h"

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"

namespace reveal {

std::vector<EventCount> counted_events(const RuleContext& context, std::string_view metric) {
  const std::vector<std::size_t> channels = context.channels(metric);
  if (channels.empty()) throw Unavailable("not measured: " + std::string(metric));
  std::vector<EventCount> counts;
  for (const std::size_t channel : channels) {
    EventCount count{.channel = channel};
    const auto series = context.telemetry.series(channel);
    for (std::size_t t = 0; t < series.size(); ++t) {
      if (!(series[t] > 0)) continue;
      if (count.total == 0) count.at.begin = t;
      count.at.end = t + 1;
      count.total += series[t];
    }
    if (count.total > 0) counts.push_back(count);
  }
  std::stable_sort(counts.begin(), counts.end(),
                   [](const EventCount& a, const EventCount& b) { return a.total > b.total; });
  return counts;
}

Evidence evidence_of(const RuleContext& context, const EventCount& count) {
  const Channel& channel = context.telemetry.channels[count.channel];
  return {.metric = channel.metric,
          .instance = channel.instance,
          .node = context.telemetry.node,
          .feature = "total",
          .observed = count.total,
          .expected = 0,
          .unit = "count",
          .span = context.span(count.at.begin, count.at.end),
          .detectors = {Method::kernel_counter},
          .score = std::nullopt};
}

}  // namespace reveal
