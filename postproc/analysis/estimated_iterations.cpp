#include "postproc/analysis/estimated_iterations.h"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "postproc/numerics/periodicity.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

// The job's own work and its exchange of data. Files are read and written in another rhythm.
constexpr std::array<std::string_view, 4> kMetrics = {"job.cpu_time", "cgroup.cpu_usage", "net.tx_bytes",
                                                      "ib.xmit_bytes"};

/// Sum over all channels of the metric; NaN where one is not known, empty if there is none.
std::vector<double> sum_of(const Telemetry& telemetry, std::string_view metric) {
  std::vector<double> sum;
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    if (telemetry.channels[i].metric != metric) continue;
    const std::span<const double> series = telemetry.series(i);
    sum.resize(series.size(), 0);
    for (std::size_t t = 0; t < series.size(); ++t) sum[t] += series[t];
  }
  return sum;
}

}  // namespace

std::optional<EstimatedIterations> estimated_iterations(const Telemetry& telemetry) {
  std::optional<EstimatedIterations> clearest;
  double strength = 0;
  for (const std::string_view metric : kMetrics) {
    const auto rhythm = periodicity_of(sum_of(telemetry, metric));
    if (!rhythm || rhythm->strength <= strength) continue;
    strength = rhythm->strength;
    clearest = {.seconds = rhythm->length * telemetry.step_seconds,
                .error = rhythm->error * telemetry.step_seconds,
                .metric = std::string(metric)};
  }
  return clearest;
}

void put_iterations(const Telemetry& telemetry, JobTotals& totals) {
  std::string& note = totals.notes["iteration_seconds"];
  if (totals.steps) {
    note = "not estimated: backward passes were counted";
    return;
  }
  const auto iterations = estimated_iterations(telemetry);
  if (!iterations) {
    note = "no steady rhythm was found in the job's cpu time and network traffic";
    return;
  }
  totals.iteration_seconds = iterations->seconds;
  note = fmt::format("estimated from the rhythm of {}, standard error {}", iterations->metric,
                     quantity(iterations->error * 1e9, "ns"));
}

}  // namespace reveal
