// A finding's remedy by the rule table and the names of its job alone: for what no single node finds, and where nothing
// that a node wrote may be taken over.
#pragma once

#include "postproc/diagnose/rule.h"
#include "postproc/report/report.h"

namespace reveal {

[[nodiscard]] Remedy job_remedy(const RuleSpec& rule, const Finding& finding, const ReportJob& job);

}  // namespace reveal
