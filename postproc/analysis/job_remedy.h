// A finding's remedy by the rule table and the names of its job alone: for what no single node finds, and where nothing
// that a node wrote may be taken over.
#pragma once

#include "postproc/diagnose/rule.h"
#include "postproc/report/report.h"

namespace reveal {

[[nodiscard]] Remedy job_remedy(const RuleSpec& rule, const Finding& finding, const ReportJob& job);

/// Titles and remedies of all findings by the rule table: a file of somebody else says no more of what to type than the
/// values in lines of the table.
void take_texts_of_rules(Report& report);

/// A finding of all nodes of a job of several is not mended by other nodes.
void leave_no_node_out(const ReportJob& job, Finding& finding);

/// Each node filled the lines of its own finding; of the finding of several they name all.
void name_all_nodes(const RuleSpec& rule, const ReportJob& job, Finding& finding);

}  // namespace reveal
