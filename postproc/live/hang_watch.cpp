#include "postproc/live/hang_watch.h"

#include <array>
#include <deque>
#include <string_view>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "postproc/diagnose/effective_rule.h"
#include "postproc/diagnose/mute.h"
#include "postproc/peers/job_rule.h"

namespace reveal {
namespace {

constexpr std::chrono::seconds kLookPeriod{2};
constexpr double kMostOfACore = 0.05;  // for all looks: those at many ranks take long, and come less often
constexpr int kLooksUntilOver = 8;
constexpr std::string_view kHangRule = "stack.hang";
constexpr std::string_view kCallsFamily = "stack/calls";
/// The families that the rule reads.
constexpr std::array<std::string_view, 5> kRuleFamilies = {kCallsFamily, "stack/durations", "process/cpu", "process/io",
                                                           "job/cpu"};

}  // namespace

std::string hang_in(std::span<const LiveTrace* const> nodes, const AnalysisSettings& settings) {
  if (!EffectiveRule(kHangRule, settings).enabled()) return "";
  std::deque<CallHistory> histories;
  std::vector<NodeCalls> calls;
  TimeSpan job{INT64_MAX, 0};
  for (const LiveTrace* node : nodes) {
    if (!node->rows().find(std::string(kCallsFamily))) continue;
    const auto block = node->block(0, kRuleFamilies);
    if (!block) continue;
    histories.push_back(call_history_of(block->telemetry));
    calls.push_back({node->node(), histories.back()});
    job.begin_utc_ns = std::min(job.begin_utc_ns, node->header().begin_utc_ns);
    job.end_utc_ns = std::max(job.end_utc_ns, node->utc_of(node->rows().newest_ns()));
  }
  if (calls.empty()) return "";
  std::vector<Finding> findings =
      run_job_rule(kHangRule, {.comparison = {}, .nodes = {}, .job = job, .calls = calls, .goes_on = true}, settings);
  static_cast<void>(take_muted(findings, settings));
  return findings.empty() ? "" : findings.front().sentence;
}

std::optional<HangWatch::Change> HangWatch::look(std::span<const std::unique_ptr<WatchedNode>> nodes,
                                                 std::chrono::steady_clock::time_point now) {
  if (now < next_) return std::nullopt;
  next_ = now + kLookPeriod;
  const double before = cpu_seconds();
  std::vector<const LiveTrace*> traces;
  traces.reserve(nodes.size());
  for (const auto& node : nodes) {
    // The rest waits for a node that has ended, or is not heard of: that is another matter.
    if (node->ended() || node->trace().state() == LiveState::silent) return std::nullopt;
    traces.push_back(&node->trace());
    has_calls_ = has_calls_ || node->trace().rows().find(std::string(kCallsFamily)).has_value();
  }
  std::string sentence = hang_in(traces, settings_);
  const std::chrono::duration<double> pause((cpu_seconds() - before) / kMostOfACore);
  next_ = std::max(next_, now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(pause));
  missed_ = sentence.empty() ? missed_ + 1 : 0;
  if (!sentence.empty()) {
    const bool begins = sentence_.empty();
    sentence_ = std::move(sentence);
    return begins ? std::optional(Change{News::begun, sentence_}) : std::nullopt;
  }
  // Rows of one node may come late.
  if (sentence_.empty() || missed_ < kLooksUntilOver) return std::nullopt;
  sentence_.clear();
  return Change{News::over, "The ranks make progress again."};
}

}  // namespace reveal
