#include "postproc/analysis/job_remedy.h"

#include <algorithm>

namespace reveal {

Remedy job_remedy(const RuleSpec& rule, const Finding& finding, const ReportJob& job) {
  JobValues values;
  if (!job.id.empty()) values["job"] = job.id;
  if (!job.command.empty()) values["command"] = job.command;
  std::string nodes;
  for (const std::string& node : finding.nodes) nodes += (nodes.empty() ? "" : ",") + node;
  if (!nodes.empty()) values["nodes"] = nodes;
  const auto peer = std::find_if(job.nodes.begin(), job.nodes.end(), [&](const std::string& node) {
    return std::find(finding.nodes.begin(), finding.nodes.end(), node) == finding.nodes.end();
  });
  if (peer != job.nodes.end()) values["peer"] = *peer;
  return remedy_for(rule, values);
}

}  // namespace reveal
