#include "postproc/analysis/channel_totals.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "postproc/numerics/present_values.h"

namespace reveal {
namespace {

constexpr double kLateNs = 10e6;

bool is_late(double value) {
  return value > kLateNs;
}

/// Resident memory of processes; and memory of a control group that cannot be dropped, unlike page cache.
constexpr std::string_view kProcessMemory[] = {"process.rss"};
constexpr std::string_view kGroupMemory[] = {"cgroup.memory_anon", "memory_stat.shmem"};

double peak_of_sum(const Telemetry& piece, std::span<const std::string_view> metrics, double peak) {
  std::vector<double> sums;
  for (std::size_t c = 0; c < piece.channels.size(); ++c) {
    if (std::find(metrics.begin(), metrics.end(), piece.channels[c].metric) == metrics.end()) continue;
    sums.resize(piece.samples);
    const std::span<const double> series = piece.series(c);
    for (std::size_t t = 0; t < series.size(); ++t) sums[t] += std::isnan(series[t]) ? 0 : series[t];
  }
  if (sums.empty()) return peak;
  const double highest = *std::max_element(sums.begin(), sums.end());
  return highest > 0 ? std::fmax(peak, highest) : peak;  // nothing at all was measured in this piece
}

}  // namespace

void ChannelTotals::add(std::span<const double> values) {
  const PresentValues all = present_values(values);
  if (all.present == 0) return;
  present += all.present;
  sum += all.sum;
  low = std::min(low, all.low);
  high = std::max(high, all.high);
  if (all.high > kLateNs) late += static_cast<std::size_t>(std::count_if(values.begin(), values.end(), is_late));
  last = *std::find_if(values.rbegin(), values.rend(), [](double value) { return !std::isnan(value); });
}

void TraceTotals::add(const Telemetry& piece) {
  channels.resize(piece.channels.size());
  for (std::size_t c = 0; c < channels.size(); ++c) channels[c].add(piece.series(c));
  process_memory_peak = peak_of_sum(piece, kProcessMemory, process_memory_peak);
  cgroup_memory_peak = peak_of_sum(piece, kGroupMemory, cgroup_memory_peak);
}

}  // namespace reveal
