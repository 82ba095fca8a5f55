// Whether a node's trace is enough to call the node healthy: a node that was not examined is not called healthy.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "postproc/analysis/channel_totals.h"
#include "postproc/analysis/node_summary.h"
#include "postproc/diagnose/rule.h"
#include "postproc/report/verdict.h"
#include "postproc/telemetry/load.h"

namespace reveal {

/// "149 of 449 samples were recorded (33 %), at least 80 % are needed", or "" where it is enough. `totals` are of all
/// `samples` of the trace, one per channel of its telemetry.
[[nodiscard]] std::string why_not_enough(const NodeTrace& trace, std::span<const ChannelTotals> totals,
                                         std::size_t samples);

/// The nodes of a job whose summaries do not show them to be healthy: too little was recorded, or a part is damaged.
[[nodiscard]] NotJudged not_judged(const std::vector<NodeSummary>& summaries, const ReportJob& job);

/// Returns the damaged parts in which a finding could have been: the channels that detectors or rules read.
[[nodiscard]] std::vector<LostPart> lost_evidence(std::span<const LostPart> lost,
                                                  const RuleContext::Metrics& asked_for);

}  // namespace reveal
