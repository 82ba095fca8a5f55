#include "postproc/live/hang_watch.h"

#include <algorithm>
#include <array>
#include <deque>
#include <string_view>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "postproc/diagnose/effective_rule.h"
#include "postproc/diagnose/mute.h"
#include "postproc/peers/job_rule.h"
#include "postproc/telemetry/last_collectives.h"

namespace reveal {
namespace {

constexpr std::chrono::seconds kLookPeriod{2};
constexpr double kMostOfACore = 0.05;  // for all looks: those at many ranks take long, and come less often
constexpr int kLooksUntilOver = 8;
constexpr std::chrono::seconds kForDetails{2};  // the newest collectives are flushed every ten seconds
constexpr std::string_view kHangRule = "stack.hang";
constexpr std::string_view kCallsFamily = "stack/calls";
/// The families that the rule reads.
constexpr std::array<std::string_view, 6> kRuleFamilies = {kCallsFamily, "stack/durations", "process/cpu",
                                                           "process/io", "job/cpu",         "job/processes"};

template <typename Holds>
bool any_rank(const std::deque<CallHistory>& histories, const Holds& holds) {
  return std::any_of(histories.begin(), histories.end(), [&](const CallHistory& history) {
    return std::any_of(history.ranks.begin(), history.ranks.end(), holds);
  });
}

bool stands_still(const RankCalls& rank) {
  return !rank.quiet.empty() && rank.quiet.back().to_the_end;
}

bool stands_somewhere(const RankCalls& rank) {
  return stands_still(rank) && rank.quiet.back().communicators.empty();
}

}  // namespace

SeenHang hang_in(std::span<LiveTrace* const> nodes, const AnalysisSettings& settings) {
  if (!EffectiveRule(kHangRule, settings).enabled()) return {};
  std::deque<CallHistory> histories;
  std::vector<NodeRanks> ranks;
  std::vector<std::pair<LiveTrace*, LiveBlock>> blocks;
  std::vector<std::string> not_counted;
  TimeSpan job{INT64_MAX, 0};
  for (LiveTrace* const node : nodes) {
    const bool counted = node->rows().find(std::string(kCallsFamily)).has_value();
    auto block = counted ? node->block(0, kRuleFamilies) : std::nullopt;
    if (!block) {
      not_counted.emplace_back(node->node());
      continue;
    }
    histories.push_back(call_history_of(block->telemetry));
    ranks.push_back({.node = node->node(), .calls = histories.back()});
    blocks.emplace_back(node, *std::move(block));
    job.begin_utc_ns = std::min(job.begin_utc_ns, node->header().begin_utc_ns);
    job.end_utc_ns = std::max(job.end_utc_ns, node->utc_of(node->rows().newest_ns()));
  }
  // The events of the trace are read only then.
  if (!any_rank(histories, stands_still)) return {};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    auto& [node, block] = blocks[i];
    histories[i] = call_history_of(block.telemetry, {}, node->utc_minus_monotonic_ns(),
                                   last_collectives(node->collective_events()));
  }
  std::vector<Finding> findings = run_job_rule(
      kHangRule,
      {.comparison = {}, .nodes = {}, .job = job, .ranks = ranks, .nodes_missing = not_counted, .goes_on = true},
      settings);
  static_cast<void>(take_muted(findings, settings));
  if (findings.empty()) return {};
  return {.sentence = findings.front().sentence, .detailed = !any_rank(histories, stands_somewhere)};
}

std::optional<HangWatch::Change> HangWatch::look(std::span<const std::unique_ptr<WatchedNode>> nodes,
                                                 std::chrono::steady_clock::time_point now) {
  if (now < next_) return std::nullopt;
  next_ = now + kLookPeriod;
  const double before = cpu_seconds();
  std::vector<LiveTrace*> traces;
  traces.reserve(nodes.size());
  for (const auto& node : nodes) {
    // The rest waits for a node that has ended, or is not heard of: that is another matter.
    if (node->ended() || node->trace().state() == LiveState::silent) return std::nullopt;
    traces.push_back(&node->trace());
    has_calls_ = has_calls_ || node->trace().rows().find(std::string(kCallsFamily)).has_value();
  }
  SeenHang seen = hang_in(traces, settings_);
  const std::chrono::duration<double> pause((cpu_seconds() - before) / kMostOfACore);
  next_ = std::max(next_, now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(pause));
  missed_ = seen.sentence.empty() ? missed_ + 1 : 0;
  if (!seen.sentence.empty()) {
    const bool begins = sentence_.empty();
    if (first_seen_ == std::chrono::steady_clock::time_point{}) first_seen_ = now;
    if (begins && !seen.detailed && now - first_seen_ < kForDetails) return std::nullopt;
    sentence_ = std::move(seen.sentence);
    return begins ? std::optional(Change{News::begun, sentence_}) : std::nullopt;
  }
  first_seen_ = {};
  // Rows of one node may come late.
  if (sentence_.empty() || missed_ < kLooksUntilOver) return std::nullopt;
  sentence_.clear();
  return Change{News::over, "The ranks make progress again."};
}

}  // namespace reveal
