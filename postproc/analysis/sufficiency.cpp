#include "postproc/analysis/sufficiency.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "postproc/telemetry/derived.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

constexpr double kEnough = 0.8;  // share of the run
/// Without one of them nearly no rule can look at anything.
constexpr std::string_view kLeastSet[] = {"job.cpu_time", "cpu.user", "cpu.system", "cpu.idle"};

/// Detectors read all channels except states and those of reveal itself.
bool is_searched(const Channel& channel) {
  return channel.subsystem != Subsystem::self && channel.kind != Kind::state;
}

RuleContext::Metrics with_inputs(const RuleContext::Metrics& metrics) {
  RuleContext::Metrics all = metrics;
  for (const std::string& metric : metrics) {
    for (const std::string_view input : inputs_of_derived(metric)) all.emplace(input);
  }
  return all;
}

}  // namespace

std::string why_not_enough(const NodeTrace& trace, std::span<const ChannelTotals> totals, std::size_t samples) {
  if (trace.samples_present < kEnough * trace.samples_expected) {
    return fmt::format("{:.0f} of {:.0f} samples were recorded ({:.0f} %), at least {:.0f} % are needed",
                       trace.samples_present, trace.samples_expected,
                       100 * trace.samples_present / trace.samples_expected, 100 * kEnough);
  }
  std::size_t most = 0;
  for (std::size_t i = 0; i < totals.size(); ++i) {
    const std::string& metric = trace.telemetry.channels[i].metric;
    if (std::find(std::begin(kLeastSet), std::end(kLeastSet), metric) == std::end(kLeastSet)) continue;
    most = std::max(most, totals[i].present);
  }
  if (most == 0) return "neither the cpu time of the job nor that of the node's cpus was measured";
  const double share = static_cast<double>(most) / static_cast<double>(samples);
  if (share >= kEnough) return "";
  return fmt::format("cpu time is known for {:.0f} % of the run, at least {:.0f} % are needed", 100 * share,
                     100 * kEnough);
}

NotJudged not_judged(const std::vector<NodeSummary>& summaries, const ReportJob& job) {
  NotJudged nodes;
  for (const NodeSummary& summary : summaries) {
    std::string reason = summary.insufficient;
    // A killed collector has recorded nothing of the rest.
    if (reason.empty() && !summary.complete && summary.seconds < kEnough * job.ran_seconds.value_or(0)) {
      reason = fmt::format("{} of {} were recorded ({:.0f} %), at least {:.0f} % are needed", duration(summary.seconds),
                           duration(*job.ran_seconds), 100 * summary.seconds / *job.ran_seconds, 100 * kEnough);
    }
    if (!reason.empty() || !summary.damaged.empty()) nodes.push_back({summary.node, reason, summary.damaged});
  }
  return nodes;
}

std::vector<LostPart> lost_evidence(std::span<const LostPart> lost, const RuleContext::Metrics& asked_for) {
  const RuleContext::Metrics read = with_inputs(asked_for);
  std::vector<LostPart> parts;
  std::copy_if(lost.begin(), lost.end(), std::back_inserter(parts), [&](const LostPart& part) {
    if (part.holds != LostPart::Holds::channels) return part.holds == LostPart::Holds::evidence;
    return std::any_of(part.channels.begin(), part.channels.end(),
                       [&](const Channel& channel) { return is_searched(channel) || read.contains(channel.metric); });
  });
  return parts;
}

}  // namespace reveal
