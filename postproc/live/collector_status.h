// NODE.status.json, which a collector replaces every ten seconds while the job runs (core/README.md). Hostile input.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "postproc/live/node_view.h"

namespace reveal {

struct CollectorStatus {
  std::optional<double> cpu_percent;  // percent of a core
  std::int64_t iterations_planned = 0;
  std::vector<EarlierInterval> closed;  // the newest intervals that are over, without their node
};

/// Throws Error, or an exception of the JSON parser, for anything else.
[[nodiscard]] CollectorStatus parse_collector_status(const std::string& json);

}  // namespace reveal
