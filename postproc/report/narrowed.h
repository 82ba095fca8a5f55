// Parts of a report: of one node, or one finding.
#pragma once

#include <string>

#include "postproc/report/report.h"

namespace reveal {

/// Leaves the part of the report about one node. The verdict, its totals and earlier runs are the job's; a verdict
/// about other nodes says so. Throws Error for a node that is not in the job.
void narrow_to_node(Report& report, const std::string& node);

/// Leaves the findings with this rule id or fingerprint. Throws Error if there is none.
void narrow_to_finding(Report& report, const std::string& id);

}  // namespace reveal
