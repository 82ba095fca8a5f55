// Findings and episodes that the rest of the job contradicts or explains: one node alone cannot show that.
#pragma once

#include <vector>

#include "postproc/analysis/node_summary.h"
#include "postproc/diagnose/finding.h"
#include "postproc/peers/peers.h"
#include "postproc/report/report.h"

namespace reveal {

/// Where "nodes" are namespaces of one machine, the ranks of the others look like outsiders to each of them: removes
/// the findings of rules about the whole machine, which are then not checked.
void void_where_kernel_is_shared(std::vector<NodeSummary>& summaries);
/// The same for findings of several nodes together.
void void_where_kernel_is_shared(const std::vector<NodeSummary>& summaries, std::vector<Finding>& of_nodes);

/// An episode that the peers show as well, at the same time and in the same channels, is a phase of the job and no
/// news.
void label_common(const std::vector<NodeSummary>& summaries, const PeerComparison& comparison, Report& report);

/// A deviation of one node while another one had a known disturbance, or was waited for, is an effect of that.
void drop_explained_elsewhere(const TimeSpan& job, std::vector<Finding>& findings);

/// Removes findings that contradict a job's successful end.
void drop_what_did_not_end_the_job(const ReportJob& job, std::vector<Finding>& findings);

}  // namespace reveal
