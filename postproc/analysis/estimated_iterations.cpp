#include "postproc/analysis/estimated_iterations.h"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <cmath>
#include <numeric>
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
constexpr double kBegun = 0.8;  // share of the rhythm's strength

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

/// Correlation of two parts of a series, which are equally long.
double correlation(std::span<const double> part, std::span<const double> later) {
  const auto count = static_cast<double>(part.size());
  const double mean = std::accumulate(part.begin(), part.end(), 0.0) / count;
  const double mean_later = std::accumulate(later.begin(), later.end(), 0.0) / count;
  double product = 0;
  double square = 0;
  double square_later = 0;
  for (std::size_t t = 0; t < part.size(); ++t) {
    product += (part[t] - mean) * (later[t] - mean_later);
    square += (part[t] - mean) * (part[t] - mean);
    square_later += (later[t] - mean_later) * (later[t] - mean_later);
  }
  return product / std::sqrt(square * square_later);  // NaN where a part is flat or not measured
}

/// The samples since the first three repetitions that resemble the ones after them as much as the rhythm in all does.
std::optional<std::size_t> samples_of_rhythm(std::span<const double> series, const Periodicity& rhythm) {
  const auto length = static_cast<std::size_t>(std::lround(rhythm.length));
  const std::size_t compared = 3 * length;
  for (std::size_t begin = 0; begin + compared + length <= series.size(); begin += length) {
    const double found = correlation(series.subspan(begin, compared), series.subspan(begin + length, compared));
    if (found >= kBegun * rhythm.strength) return series.size() - begin;
  }
  return std::nullopt;
}

}  // namespace

std::optional<EstimatedIterations> estimated_iterations(const Telemetry& telemetry) {
  std::optional<EstimatedIterations> clearest;
  double strength = 0;
  for (const std::string_view metric : kMetrics) {
    const std::vector<double> series = sum_of(telemetry, metric);
    const auto rhythm = periodicity_of(series);
    if (!rhythm || rhythm->strength <= strength) continue;
    strength = rhythm->strength;
    clearest = {.seconds = rhythm->length * telemetry.step_seconds,
                .error = rhythm->error * telemetry.step_seconds,
                .metric = std::string(metric)};
    if (const auto samples = samples_of_rhythm(series, *rhythm)) {
      clearest->lasts_seconds = static_cast<double>(*samples) * telemetry.step_seconds;
    }
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
