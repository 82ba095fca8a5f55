// Turns the findings of many nodes into one answer: the cause, the nodes affected, and the runner-up with the reason it
// lost.
#pragma once

#include <string>
#include <vector>

#include "postproc/report/report.h"

namespace reveal {

/// The same rule on several nodes, brought about by the same causes, is one finding, so that of those that stand for
/// themselves each has a rule of its own; but not of a rule that names the place. Order is severity, then cost; judge()
/// orders those without a cost by how long they lasted, too.
[[nodiscard]] std::vector<Finding> merge_findings(std::vector<Finding> findings);

/// A node with a trace that does not show it to be healthy, and why.
struct UnjudgedNode {
  std::string node;
  std::string too_little = {};  // "9 s were recorded", or ""
  std::string damaged = {};     // "memory/vmstat: the checksum of a chunk is wrong", or ""
};
using NotJudged = std::vector<UnjudgedNode>;

/// Fills report.verdict from findings, job and coverage. Damage may hide a finding: without one, the job is then not
/// judged at all.
void judge(Report& report, const NotJudged& not_judged);

/// Worth a place on the page: neither without cost nor the consequence of another finding.
[[nodiscard]] bool is_shown(const Finding& finding) noexcept;
/// The findings that a page shows by default: without observations and consequences.
[[nodiscard]] std::vector<const Finding*> shown_findings(const Report& report);
/// "1 unexplained change without visible cost": the findings that shown_findings() leaves out; "" if there are none.
[[nodiscard]] std::string left_out_line(const Report& report);
/// Whether a page lists the detectors' intervals: below "healthy" and where too little was measured it would only
/// unsettle.
[[nodiscard]] bool shows_intervals(const Report& report) noexcept;

}  // namespace reveal
