#include "postproc/report/sufficiency.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace reveal {
namespace {

constexpr double kLeastShare = 0.8;
/// Without one of them nearly no rule can look at anything.
constexpr std::string_view kLeastSet[] = {"job.cpu_time", "cpu.user", "cpu.system", "cpu.idle"};

}  // namespace

std::string why_not_enough(const NodeTrace& trace, std::span<const ChannelTotals> totals, std::size_t samples) {
  if (trace.samples_present < kLeastShare * trace.samples_expected) {
    return fmt::format("{:.0f} of {:.0f} samples were recorded ({:.0f} %), at least {:.0f} % are needed",
                       trace.samples_present, trace.samples_expected,
                       100 * trace.samples_present / trace.samples_expected, 100 * kLeastShare);
  }
  std::size_t most = 0;
  for (std::size_t i = 0; i < totals.size(); ++i) {
    const std::string& metric = trace.telemetry.channels[i].metric;
    if (std::find(std::begin(kLeastSet), std::end(kLeastSet), metric) == std::end(kLeastSet)) continue;
    most = std::max(most, totals[i].present);
  }
  if (most == 0) return "neither the cpu time of the job nor that of the node's cpus was measured";
  const double share = static_cast<double>(most) / static_cast<double>(samples);
  if (share >= kLeastShare) return "";
  return fmt::format("cpu time is known for {:.0f} % of the run, at least {:.0f} % are needed", 100 * share,
                     100 * kLeastShare);
}

}  // namespace reveal
