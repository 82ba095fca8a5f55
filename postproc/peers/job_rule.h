// A rule that looks at all nodes of a job together: differences between nodes, and facts that no single one shows. Its
// row stands in the rule table like all others; one family of rules per file in rules/, without a header.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "postproc/diagnose/effective_rule.h"
#include "postproc/diagnose/node_check.h"
#include "postproc/diagnose/remedy.h"
#include "postproc/peers/lateness.h"
#include "postproc/peers/node_ranks.h"
#include "postproc/peers/peers.h"

namespace reveal {

/// Everything such a rule may look at.
struct JobRuleContext {
  const PeerComparison& comparison;
  std::span<const NodeProfile* const> nodes;  // their snapshots' facts, whole-job levels and trends
  TimeSpan job;
  std::span<const Finding> found = {};  // on single nodes
  std::span<const NodeRanks> ranks = {};
  RemedyNames names = {};
  std::span<const std::string> nodes_missing = {};  // nodes of the job without a usable trace
  bool goes_on = false;                             // the job still runs: more rows will come
  JobOutcome end = JobOutcome::not_known;
};

/// A finding without its remedy, and the rule's values for the remedy's lines beside names.
struct JobFinding {
  JobFinding(Finding found, JobValues known = {}) : finding(std::move(found)), values(std::move(known)) {}

  Finding finding;
  JobValues values;
};
using JobCheck = std::vector<JobFinding> (*)(const JobRuleContext&, const EffectiveRule&);

/// The data that a rule compares. Settings alone can be compared without the rest of an analysis.
enum class JobRuleOf : std::uint8_t { measurements, settings };

struct RegisteredJobRule {
  RegisteredJobRule(JobCheck check, RuleSpec spec, JobRuleOf of = JobRuleOf::measurements);
};

/// How to verify a difference of a node.
inline constexpr Verification kFollowsTheNode{
    .command = "reveal show NEXT_RUN",
    .where = "after a run without this node",
    .expected = "no such finding; if another node has it, the program is the cause"};

/// Findings of all rules of this kind that the site has not switched off, in the order of their ids.
[[nodiscard]] std::vector<Finding> run_job_rules(const JobRuleContext& context, const AnalysisSettings& settings = {});

/// The same of one rule.
[[nodiscard]] std::vector<Finding> run_job_rule(std::string_view id, const JobRuleContext& context,
                                                const AnalysisSettings& settings);

/// The checks of `reveal check` on the recorded nodes of a job together: the rules that compare settings. `nodes` are
/// at least three: with two, the odd one is unknown.
[[nodiscard]] NodeCheck check_settings(const std::vector<const NodeProfile*>& nodes, const AnalysisSettings& settings);

}  // namespace reveal
