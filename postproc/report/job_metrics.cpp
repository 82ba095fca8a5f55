#include "postproc/report/job_metrics.h"

#include <algorithm>
#include <initializer_list>
#include <map>

#include "postproc/words/gauge.h"

namespace reveal {
namespace {

struct TotalsMetric {
  std::string_view key;  // key of kTotalsNumbers
  std::string_view name, unit, help;
};
constexpr TotalsMetric kTotalsMetrics[] = {
    {"seconds", "reveal_job_measured_seconds", "seconds", "Time that was measured."},
    {"cpu_seconds", "reveal_job_cpu_seconds", "seconds", "Processor time of the job."},
    {"cpus_owned", "reveal_job_cpus", "", "Processors of the job."},
    {"cpu_used_share", "reveal_job_cpu_used_ratio", "ratio", "Used part of the processors' time."},
    {"memory_peak", "reveal_job_memory_peak_bytes", "bytes", "Peak memory of the node with the highest peak."},
    {"memory_limit", "reveal_job_memory_limit_bytes", "bytes", "Memory limit on that node."},
    {"read_bytes", "reveal_job_read_bytes", "bytes", "Read from storage."},
    {"written_bytes", "reveal_job_written_bytes", "bytes", "Written to storage."},
    {"network_bytes", "reveal_job_network_bytes", "bytes", "Sent and received over networks."},
    {"wait_share", "reveal_job_run_queue_wait_ratio", "ratio", "Seconds in each second that ready tasks waited."},
    {"steps", "reveal_job_training_steps", "", "Training steps that were counted."},
    {"iteration_seconds", "reveal_job_iteration_seconds", "seconds",
     "Estimated time of each iteration, by its rhythm."},
    {"energy_joules", "reveal_job_energy_joules", "joules", "Energy of the nodes during the job."},
    {"gpus", "reveal_job_gpus", "", "GPUs of the job that were measured."},
    {"gpu_used_share", "reveal_job_gpu_used_ratio", "ratio", "Mean utilization of these GPUs."},
    {"gpu_memory_peak", "reveal_job_gpu_memory_peak_bytes", "bytes", "Peak memory of the GPU with the highest peak."},
    {"gpu_memory_total", "reveal_job_gpu_memory_total_bytes", "bytes", "Memory of that GPU."},
    {"gpu_energy_joules", "reveal_job_gpu_energy_joules", "joules", "Energy of these GPUs during the job."},
    {"instructions", "reveal_job_instructions", "", "Instructions, by the processors' counters."},
    {"cycles", "reveal_job_cycles", "", "Cycles, by the processors' counters."},
    {"stalled_cycles", "reveal_job_stalled_cycles", "", "Cycles without progress."},
    {"cache_misses", "reveal_job_cache_misses", "", "Misses of the last cache."},
    {"remote_reads", "reveal_job_remote_reads", "", "Reads from another NUMA node."},
    {"memory_traffic", "reveal_job_memory_traffic_bytes", "bytes", "Traffic of the nodes' memory controllers."},
};

std::string totals_metrics(const JobTotals& totals, const MetricLabels& job) {
  std::string text;
  for (const auto& [key, member] : kTotalsNumbers) {
    for (const TotalsMetric& metric : kTotalsMetrics) {
      if (metric.key != key) continue;
      Gauge gauge(metric.name, metric.unit, metric.help);
      gauge.add(job, totals.*member);
      text += gauge.text();
    }
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
