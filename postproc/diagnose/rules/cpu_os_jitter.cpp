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

std::optional<Finding> steady_noise(const RuleContext& context, const Signal& services) {
  if (job_seconds(context) < context.threshold("min_constant_seconds")) return std::nullopt;
  const Interval whole{0, context.telemetry.samples};
  const Signal used = needed(rate(context, "job.cpu_time", 1e-9, "cpus"), "job.cpu_time");
  const Signal wait = needed(cpu_wait(context), "waiting time of the job (schedstat) or pressure.cpu_some");
  const Level level{mean_inside(services.values, whole), mean_inside(used.values, whole),
                    mean_inside(context.total("job.cpus_allowed"), whole), mean_inside(wait.values, whole)};
  if (!is_material(context, level)) return std::nullopt;

  Finding finding = finding_at(context, whole);
  finding.severity = Severity::notice;
  finding.confidence = Confidence::possible;
  finding.impact.how =
      fmt::format("not known; at most {} s, in which the services ran on cpus for which the job waited",
                  number(level.services * job_seconds(context) / std::max(1.0, level.used)));
  for (const auto& [signal, mean] : {std::pair(&services, level.services), std::pair(&wait, level.waited)}) {
    Evidence evidence = evidence_of(context, *signal, Contrast{mean, kNaN, 0}, whole);
    evidence.expected.reset();
    finding.evidence.push_back(std::move(evidence));
  }
  finding.evidence.front().instance = "services";
  if (const auto own = rate(context, "self.cpu_time", 1e-9, "cpus")) {
    Evidence evidence = evidence_of(context, *own, Contrast{mean_inside(own->values, whole), kNaN, 0}, whole);
    evidence.expected.reset();
    finding.evidence.push_back(std::move(evidence));
  }
  finding.sentence = fmt::format(
      "Services of the system used {} cpus of {} in short turns throughout the run, {} % of the cpu time of the job.",
      number(level.services), context.telemetry.node, number(100 * level.services / level.used));
  finding.runner_up = {"cpu.outsider", "other processes: these belong to services of the system"};
  return finding;
}

std::vector<Finding> check(const RuleContext& context) {
  const Signal services = needed(outsider_time(context, Outsiders::services),
                                 "outsider.cpu_time, so not what processes outside the job are");
  std::vector<Finding> findings = outsider_findings(context);
  if (!findings.empty()) return findings;
  if (auto noise = steady_noise(context, services)) findings.push_back(*std::move(noise));
  return findings;
}

const RegisteredRule kRule{{
    .id = "cpu.os_jitter",
    .title = "The system's own services ran on the job's cpus",
    .looks_for =
        "Intervals as cpu.outsider does (job.outsider_cpu, while the job waited for a cpu or got less), in which "
        "services of the system or threads of the kernel used most of that time (outsider.cpu_time); and services "
        "that run in short turns all the time.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::cpu,
    .order = 59,
    .look_alikes = "node.noisy_neighbour,cpu.outsider,irq.softirq_saturation,mem.writeback_stall",
    .proof = Proof::real,
    .whole_machine = true,
    .thresholds = outsider_thresholds(
        {{"min_share", 0.01, "ratio", "services in short turns: least share of the cpu time of the job"},
         {"min_level", 0.05, "cpus", "services in short turns: least cpu time"},
         {"min_busy", 0.9, "ratio", "services in short turns: least use of the job's cpus; idle ones cost nothing"}}),
    .user_remedy = {{"#SBATCH --core-spec=1   # where the site allows it: a core of each node for the system", "job"},
                    "taskset -c {free_cpus} {command} ...   # keep away from the cpus that were used"},
    .advice = {{"Leave one core free: run one thread less than the job has cpus.", "spare_core"}},
    .admin_remedy = {"systemctl status {unit}   # the service that used most",
                     "systemctl list-timers     # what starts at that time of day; mask what a compute node does not need",
                     {"slurm.conf: CoreSpecCount=1   # in the node's line: a core for services", "job"}},
    .verify = "outsider.cpu_time of services stays below 0.2 % of the cpu time of the job",
    .sources = {"https://docs.kernel.org/trace/osnoise-tracer.html", "https://slurm.schedmd.com/core_spec.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::cpu_os_jitter
