// The job's own pace, without a look into it: a job that does the same work again and again reads and writes the same
// amount in equal times. In a disturbed interval it reads and writes less, by the part of the work that it did not do.
#pragma once

#include <optional>
#include <string>

#include "postproc/diagnose/rule.h"
#include "postproc/diagnose/signals.h"

namespace reveal {

struct LostProgress {
  double share = 0;  // part of the usual work in such a time, between 0 and 1
  std::string how;
};

/// Returns the part of its work that the job on this node did not do in the interval, by the bytes of its read and
/// write calls. Nothing where these do not come at an even pace in the rest of the run, were not measured, contradict
/// each other, or fell by no more than they vary.
[[nodiscard]] std::optional<LostProgress> lost_progress(const RuleContext& context, Interval at);

/// Replaces the cost that a rule estimated from its own signal by the work that the job did not do meanwhile, where
/// that is known: what a thread waited for a cpu is less than what its job lost if the other threads waited for it. An
/// upper bound stays one, and no cost is added where the rule saw none: the job may have had less to do.
void refine_loss(const RuleContext& context, Finding& finding);

}  // namespace reveal
