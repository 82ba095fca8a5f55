// The iterations of a job whose steps nobody counted: the rhythm of what it does, in the channels of every trace.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "postproc/report/report.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// The families with the channels that may show it.
inline constexpr std::array<std::string_view, 4> kFamiliesWithRhythm = {"job/cpu", "job/cgroup_time", "network/bytes",
                                                                        "network/ib_bytes"};

struct EstimatedIterations {
  double seconds = 0;  // each
  double error = 0;    // standard error
  std::string metric;  // that shows the rhythm most clearly
  /// From the first repetition on; nothing where that is not clear.
  std::optional<double> lasts_seconds = std::nullopt;
};

/// Nothing where none of the channels has a steady rhythm of half a second to a minute.
[[nodiscard]] std::optional<EstimatedIterations> estimated_iterations(const Telemetry& telemetry);

/// The time of each iteration, or why it is not known. Not where steps were counted.
void put_iterations(const Telemetry& telemetry, JobTotals& totals);

}  // namespace reveal
