// More threads than the job has cpus, and they take turns: one process starts as many as the machine has cores, or each
// rank as many as the job has cpus.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/found_before.h"
#include "postproc/diagnose/signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::cpu_oversubscribed {
namespace {

struct Crowd {
  std::vector<std::string> processes;
  double threads = 0;
  double waited = 0;       // s/s, of its threads
  double used = 0;         // cpus
  bool estimated = false;  // the wait, from a part of the threads
};

double mean_of(const RuleContext& context, std::string_view metric, const std::string& process, bool counter) {
  const auto channels = context.channels(metric, process);
  if (channels.empty()) return std::nan("");
  const Interval whole{0, context.telemetry.samples};
  if (!counter) return mean_inside(context.telemetry.series(channels.front()), whole);
  return mean_inside(channel_rate(context, channels.front(), 1e-9, "cpus").values, whole);
}

/// The process with the threads that waited most for a cpu, if it uses the job's cpus alone; else all in which several
/// threads at once waited for one. Many processes of one thread each are a program's own design.
Crowd largest_crowd(const RuleContext& context, double least_used) {
  constexpr double kSeveralThreads = 1.5;
  Crowd largest;
  Crowd all;
  for (const std::size_t channel : context.channels("process.threads")) {
    const std::string& process = context.telemetry.channels[channel].instance;
    Crowd crowd{{process},
                mean_of(context, "process.threads", process, false),
                mean_of(context, "process.wait_time", process, true),
                mean_of(context, "process.cpu_time", process, true)};
    if (const auto all_threads = estimated_wait(context, process)) {
      crowd.waited = *all_threads;
      crowd.estimated = true;
    }
    if (crowd.waited > largest.waited) largest = crowd;
    if (!(crowd.waited + crowd.used >= kSeveralThreads) || std::isnan(crowd.threads)) continue;
    all.processes.push_back(process);
    all.threads += crowd.threads;
    all.waited += crowd.waited;
    all.used += crowd.used;
    all.estimated = all.estimated || crowd.estimated;
  }
  return largest.used >= least_used || all.processes.size() < 2 ? largest : all;
}

/// Processes like these that the job had, and the part of its cpus that the measured ones used. More than are measured
/// have the rest.
struct Extent {
  double processes = 0;
  double cpus = 0;
  double used_by_job = 0;  // cpus

  [[nodiscard]] bool beyond(const Crowd& crowd) const {
    return processes > static_cast<double>(crowd.processes.size());
  }
};

Extent extent_of(const RuleContext& context, const Crowd& crowd, double cpus) {
  const Interval whole{0, context.telemetry.samples};
  const auto count = static_cast<double>(crowd.processes.size());
  const Extent as_measured{count, cpus, crowd.used};
  const auto used = rate(context, "job.cpu_time", 1e-9, "cpus");
  if (count < 2 || !used || measures_every_process(context, whole)) return as_measured;
  const double used_by_job = mean_inside(used->values, whole);
  if (!(crowd.used > 0 && used_by_job > crowd.used)) return as_measured;
  const double part = crowd.used / used_by_job;
  return {std::round(count / part), part * cpus, used_by_job};
}

/// Cpus that the threads of one process wanted at one time, on average, if the node has so many.
JobValues values_of(const RuleContext& context, const Crowd& crowd, const Extent& extent, double cpus) {
  JobValues values{{"cpus", number(std::max(1.0, std::floor(cpus / extent.processes)))}};
  const double wanted = std::ceil(crowd.waited + crowd.used);
  const std::size_t of_node = parse_cpu_list(context.snapshot_value("cpu.online")).size();
  if (crowd.processes.size() == 1 && wanted > cpus && wanted <= static_cast<double>(of_node)) {
    values["wanted"] = fmt::format("{:.0f}", wanted);
  }
  return values;
}

std::vector<Finding> check(const RuleContext& context) {
  const double cpus = mean_inside(context.total("job.cpus_allowed"), {0, context.telemetry.samples});
  if (!(cpus >= 1)) throw Unavailable("not measured: job.cpus_allowed");
  if (context.channels("process.wait_time").empty()) throw Unavailable("not measured: process.wait_time");
  const double least_used = context.threshold("min_used") * cpus;
  const Crowd crowd = largest_crowd(context, least_used);
  // The same wait has these causes, too, and each has a remedy of its own.
  if (found_before(context, "cpu.affinity_too_narrow") || found_before(context, "cpu.cfs_throttled")) return {};
  const Extent extent = extent_of(context, crowd, cpus);
  if (!(crowd.threads > extent.cpus) || !(crowd.waited >= context.threshold("min_wait") * extent.cpus)) return {};
  if (!(crowd.used > 0 && extent.used_by_job >= least_used)) return {};  // else others had the cpus

  const auto processes = static_cast<double>(crowd.processes.size());
  const bool one = crowd.processes.size() == 1;
  const std::string& first = crowd.processes.front();
  Finding finding = context.finding(values_of(context, crowd, extent, cpus));
  finding.intervals = {context.span(0, context.telemetry.samples)};
  for (const std::string& process : crowd.processes) {
    if (context.rank_name(process) == process) finding.instances.push_back(process);
  }
  finding.confidence = Confidence::likely;
  finding.severity = crowd.waited >= extent.cpus ? Severity::warning : Severity::notice;
  finding.impact.how = "not known: only a run with fewer threads shows it";
  const std::string whose = one ? first : "";
  finding.evidence.push_back(fact(context, "process.threads", whose, "value", crowd.threads, extent.cpus, "count"));
  finding.evidence.push_back(fact(context, "process.wait_time", whose, "mean", crowd.waited, std::nullopt, "s/s"));
  finding.evidence.push_back(fact(context, "process.cpu_time", whose, "value", crowd.used, extent.cpus, "cpus"));
  const std::string who = one                    ? context.rank_name(first)
                          : extent.beyond(crowd) ? fmt::format("{} of the job's processes", number(processes))
                                                 : number(processes) + " processes";
  finding.sentence =
      fmt::format("On {}, {} threads of {} shared {}: on average {} of them waited for a cpu{} and {} ran.",
                  context.telemetry.node, number(std::round(crowd.threads)), who,
                  extent.beyond(crowd) ? "their part of the " + counted(cpus, "cpu") : counted(cpus, "cpu"),
                  number(crowd.waited), crowd.estimated ? " (estimated from main threads)" : "", number(crowd.used));
  finding.runner_up = {"cpu.outsider",
                       fmt::format("other processes on these cpus: the {} used {} of the {}",
                                   one ? "process itself" : (extent.beyond(crowd) ? "job" : "processes"),
                                   number(extent.used_by_job), counted(cpus, "cpu"))};
  return {finding};
}

const RegisteredRule kRule{{
    .id = "cpu.oversubscribed",
    .title = "The job runs more threads than it has cpus",
    .looks_for = "One process, or several processes of several threads each, with more threads than the job has cpus, "
                 "whose threads wait for a cpu all the time: process.threads, process.wait_time, process.cpu_time "
                 "against job.cpus_allowed.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::cpu,
    .order = 35,
    .look_alikes = "cpu.outsider,cpu.affinity_too_narrow,cpu.cfs_throttled",
    .proof = Proof::real,
    .thresholds = {{"min_wait", 0.6, "ratio", "least waiting time of its threads per cpu of the job"},
                   {"min_used", 0.8, "ratio", "least part of the job's cpus that it used itself"}},
    .user_remedy =
        {"export OMP_NUM_THREADS={cpus} MKL_NUM_THREADS={cpus} OPENBLAS_NUM_THREADS={cpus}",
         {"#SBATCH --cpus-per-task={wanted}   # in place of fewer threads: so many wanted a cpu at one time, "
          "on average; give srun the same option",
          "job", kOr},
         "{python} -c 'import os; print(len(os.sched_getaffinity(0)))'   # prints the number of the "
         "job's cpus, where os.cpu_count() prints those of the node"},
    .advice =
        {"Give the pools of the program (n_jobs, num_workers, torch.set_num_threads) together no more threads than "
         "the job has cpus.",
         {"Request more cpus.", "!wanted", kOr}},
    .verify = {.expected = "process.wait_time is a few per cent of process.cpu_time"},
    .sources = {"https://docs.kernel.org/scheduler/sched-stats.html",
                "https://scikit-learn.org/stable/computing/parallelism.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::cpu_oversubscribed
