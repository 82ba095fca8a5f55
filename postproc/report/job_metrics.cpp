#include "postproc/report/job_metrics.h"

#include <algorithm>
#include <initializer_list>
#include <map>

#include "postproc/words/gauge.h"

namespace reveal {
namespace {

std::string totals_metrics(const JobTotals& totals, const MetricLabels& job) {
  std::string text;
  for (const TotalsNumber& total : kTotalsNumbers) {
    Gauge gauge(total.metric, total.metric_unit, total.metric_help);
    gauge.add(job, totals.*total.value);
    text += gauge.text();
  }
  return text;
}

}  // namespace

std::string report_as_metrics(const Report& report) {
  // Not the directory: its name may be that of a user (--output %u).
  const MetricLabels job{{"job_id", report.job.id.empty() ? report.report_id : report.job.id}};
  const auto job_and = [&](std::initializer_list<MetricLabels::value_type> more) {
    MetricLabels labels = job;
    labels.insert(labels.end(), more);
    return labels;
  };
  Gauge info("reveal_job_info", "", "The verdict of the report, as a label.");
  info.add(job_and({{"verdict", name_of(report.verdict.status)}}), 1);
  Gauge ran("reveal_job_run_seconds", "seconds", "Run time of the job.");
  ran.add(job, report.job.ran_seconds);
  Gauge nodes("reveal_job_nodes", "", "Nodes of the job.");
  nodes.add(job, static_cast<double>(report.job.nodes.size() + report.job.nodes_missing.size()));

  struct OfRule {
    double findings = 0;
    std::optional<double> seconds, most_seconds;
  };
  std::map<std::pair<std::string, std::string_view>, OfRule> rules;
  for (const Finding& finding : report.findings) {
    if (!finding.caused_by.empty()) continue;  // its cost is that of its cause
    OfRule& rule = rules[{finding.id, name_of(finding.severity)}];
    rule.findings += 1;
    if (!finding.impact.seconds) continue;
    std::optional<double>& seconds = finding.impact.at_most ? rule.most_seconds : rule.seconds;
    seconds = std::max(seconds.value_or(0), *finding.impact.seconds);
  }
  Gauge count("reveal_job_findings", "", "Findings of a rule.");
  Gauge cost("reveal_job_finding_cost_seconds", "seconds",
             "Estimated time that the job lost to the rule's finding with the largest estimate.");
  Gauge bound("reveal_job_finding_cost_at_most_seconds", "seconds",
              "Upper bound of the time that the job lost to the rule's finding with the largest bound.");
  for (const auto& [key, rule] : rules) {
    const MetricLabels labels = job_and({{"rule", key.first}, {"severity", key.second}});
    count.add(labels, rule.findings);
    cost.add(labels, rule.seconds);
    bound.add(labels, rule.most_seconds);
  }
  std::string text = info.text() + ran.text() + nodes.text() + count.text() + cost.text() + bound.text();
  if (!report.totals.empty()) text += totals_metrics(report.totals.front(), job);
  return text + "# EOF\n";
}

}  // namespace reveal
