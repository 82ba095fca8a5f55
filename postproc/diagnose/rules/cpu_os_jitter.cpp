// Services of the system and threads of the kernel ran on the job's cpus: in one piece, or a little all the time.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/outsiders.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::cpu_os_jitter {
namespace {

/// All of the run, in cpus.
struct Level {
  double services = 0;
  double used = 0;
  double allowed = 0;
  double waited = 0;
};

/// Many short turns: none of them stands out, together they are a part of the job. On cpus that the job leaves idle
/// they cost it nothing.
bool is_material(const RuleContext& context, const Level& level) {
  return level.services >= context.threshold("min_share") * level.used &&
         level.services >= context.threshold("min_level") && level.waited >= level.services &&
         level.used + level.services >= context.threshold("min_busy") * level.allowed;
}

std::optional<Finding> steady_noise(const RuleContext& context, const MetricSeries& services) {
  if (job_seconds(context) < context.threshold("min_constant_seconds")) return std::nullopt;
  const Interval whole{0, context.telemetry.samples};
  const MetricSeries used = needed(rate(context, "job.cpu_time", 1e-9, "cpus"), "job.cpu_time");
  const MetricSeries wait = needed(cpu_wait(context), "waiting time of the job (schedstat) or pressure.cpu_some");
  const Level level{mean_inside(services.values, whole), mean_inside(used.values, whole),
                    mean_inside(context.total("job.cpus_allowed"), whole), mean_inside(wait.values, whole)};
  if (!is_material(context, level)) return std::nullopt;

  Finding finding = finding_at(context, whole);
  set_most_loss(context, finding, level.services * job_seconds(context) / std::max(1.0, level.used),
                "in this time the services ran on cpus that the job waited for");
  finding.severity = Severity::notice;
  finding.confidence = Confidence::possible;
  for (const auto& [signal, mean] : {std::pair(&services, level.services), std::pair(&wait, level.waited)}) {
    Evidence evidence = evidence_of(context, *signal, InsideOutside{mean, kNaN, 0}, whole);
    evidence.expected.reset();
    finding.evidence.push_back(std::move(evidence));
  }
  finding.evidence.front().instance = "services";
  if (const auto own = rate(context, "self.cpu_time", 1e-9, "cpus")) {
    Evidence evidence = evidence_of(context, *own, InsideOutside{mean_inside(own->values, whole), kNaN, 0}, whole);
    evidence.expected.reset();
    finding.evidence.push_back(std::move(evidence));
  }
  finding.sentence =
      fmt::format("System services used {} of {} in short bursts throughout the run, {} % of the cpu time of the job.",
                  counted(level.services, "cpu"), context.telemetry.node, number(100 * level.services / level.used));
  finding.runner_up = {"cpu.outsider", "other processes: these belong to system services"};
  return finding;
}

std::vector<Finding> check(const RuleContext& context) {
  const MetricSeries services = needed(outsider_time(context, Outsiders::services),
                                       "outsider.cpu_time, so the kind of processes outside the job is not known");
  std::vector<Finding> findings = outsider_findings(context);
  if (!findings.empty()) return findings;
  if (auto noise = steady_noise(context, services)) findings.push_back(*std::move(noise));
  return findings;
}

const RegisteredRule kRule{{
    .id = "cpu.os_jitter",
    .title = "System services ran on the job's cpus",
    .looks_for = "The same intervals as cpu.outsider (job.outsider_cpu, while the job waited for a cpu or got less cpu "
                 "time) in which "
                 "system services or kernel threads used most of that time (outsider.cpu_time); and services that run "
                 "in short bursts throughout the job.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::cpu,
    .order = 59,
    .look_alikes = "node.noisy_neighbour,cpu.outsider,irq.softirq_saturation,mem.writeback_stall",
    .proof = Proof::real,
    .whole_machine = true,
    .thresholds = outsider_thresholds(
        {{"min_share", 0.01, "ratio", "services in short turns: least share of the cpu time of the job"},
         {"min_level", 0.05, "cpus", "services in short bursts: least cpu time"},
         {"min_busy", 0.9, "ratio",
          "services in short bursts: least utilisation of the job's cpus; on idle cpus the services cost nothing"}}),
    .user_remedy = {{"#SBATCH --core-spec=1   # if the site allows it: a core of each node for the system; takes and "
                     "costs whole nodes",
                     "job"},
                    {"taskset -c {free_cpus}   # avoids the cpus that were used", "!job"}},
    .advice = {{"Leave one core free: run one thread fewer than the job has cpus.", "spare_core", kOr}},
    .admin_remedy =
        {"systemctl status {unit}   # on {node}: the service that used most cpu time",
         "systemctl list-timers   # on {node}: which timers start at that time of day; mask those that a compute "
         "node does not need",
         "systemctl set-property {unit} AllowedCPUs=0   # changes {node}, also after a boot: with control groups of "
         "version 2, the service stays on cpu 0; jobs must not get that cpu",
         {"slurm.conf: CoreSpecCount=1   # in the node's line: jobs do not get that core", "job", kOr}},
    .verify = {.expected = "services use less than 0.2 % of the job's cpu time"},
    .sources = {"https://docs.kernel.org/trace/osnoise-tracer.html", "https://slurm.schedmd.com/core_spec.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::cpu_os_jitter
