// Many findings of many nodes become one answer: what was it, who is affected, what came second and why.
#pragma once

#include <string>
#include <vector>

#include "postproc/report/report.h"

namespace reveal {

/// The same rule on several nodes is one finding; order is severity (worth acting on first), attribution order, impact.
[[nodiscard]] std::vector<Finding> merge_findings(std::vector<Finding> findings);

/// Fills report.verdict from findings, job and coverage. `insufficient` is one node's reason why nothing can be said,
/// "" when at least one node could be judged.
void judge(Report& report, const std::string& insufficient);

}  // namespace reveal
