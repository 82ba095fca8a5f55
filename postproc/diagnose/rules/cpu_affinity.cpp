// The job's processes may run on fewer cpus than the job owns, and they need more.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/core_threads.h"
#include "postproc/diagnose/interventions.h"
#include "postproc/diagnose/rule.h"
#include "postproc/diagnose/signals.h"
#include "postproc/numerics/median.h"
#include "postproc/telemetry/snapshot_facts.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::cpu_affinity {
namespace {

/// Cpus of a job of more than 64 are measured together, and the busiest one by itself: the job fills an allowed cpu
/// first. Empty where it was not measured.
std::vector<double> busiest_of_many(const RuleContext& context) {
  const std::size_t second = context.steps(1);
  std::vector<double> busiest;
  for (const std::string_view metric : {"cpu.user_max", "cpu.nice_max"}) {
    for (const std::size_t channel : context.channels(metric, "job_cpus")) {
      busiest.resize(context.telemetry.samples / second, std::nan(""));
      const MetricSeries busy = channel_rate(context, channel, 1e-9, "cpus");
      for (std::size_t i = 0; i < busiest.size(); ++i) {
        busiest[i] = std::fmax(busiest[i], mean_inside(busy.values, {i * second, (i + 1) * second}));
      }
    }
  }
  return busiest;
}

/// Means over whole seconds of the busiest cpu the job may use, 0..1, without those in which reveal had changed that;
/// NaN where no allowed cpu was measured.
std::vector<double> busiest_allowed(const RuleContext& context, const std::vector<Interval>& changed) {
  const std::size_t second = context.steps(1);
  std::vector<double> busiest(context.telemetry.samples / second, std::nan(""));
  bool each = false;
  for (const std::size_t member : context.channels("job.cpu_allowed")) {
    const std::string& cpu = context.telemetry.channels[member].instance;
    if (!is_one_cpu(cpu)) continue;
    each = true;
    std::vector<double> busy(context.telemetry.samples, 0.0);
    for (const std::string_view metric : {"cpu.user", "cpu.nice", "cpu.system"}) {
      const auto channel = context.channels(metric, cpu);
      if (channel.empty()) return {};
      const auto series = context.telemetry.series(channel[0]);
      for (std::size_t t = 0; t < busy.size(); ++t) busy[t] += series[t] * 1e-9 / context.telemetry.step_seconds;
    }
    for (std::size_t i = 0; i < busiest.size(); ++i) {
      const Interval at{i * second, (i + 1) * second};
      if (!(mean_inside(context.telemetry.series(member), at) > 0.5)) continue;
      const double mean = mean_inside(busy, at);
      if (!std::isnan(mean)) busiest[i] = std::isnan(busiest[i]) ? mean : std::max(busiest[i], mean);
    }
  }
  if (!each) busiest = busiest_of_many(context);
  std::vector<double> unchanged;
  for (std::size_t i = 0; i < busiest.size(); ++i) {
    const Interval at{i * second, (i + 1) * second};
    const auto overlaps = [&at](Interval one) { return overlap(at, one) > 0; };
    if (std::none_of(changed.begin(), changed.end(), overlaps)) unchanged.push_back(busiest[i]);
  }
  return unchanged;
}

/// The rest of the run.
std::vector<TimeSpan> spans_outside(const RuleContext& context, const std::vector<Interval>& intervals) {
  std::vector<TimeSpan> spans;
  std::size_t begin = 0;
  for (const Interval& interval : intervals) {
    if (begin < interval.begin) spans.push_back(context.span(begin, interval.begin));
    begin = std::max(begin, interval.end);
  }
  if (begin < context.telemetry.samples) spans.push_back(context.span(begin, context.telemetry.samples));
  return spans;
}

/// One thread on each core, as --hint=nomultithread asks for, leaves no core of the job out.
bool reaches_the_cores(const RuleContext& context, double allowed) {
  for (const Snapshot* facts : {&context.begin, &context.end}) {
    const std::vector<int> mask = parse_cpu_list(fact_in(*facts, "job.cpus_allowed").value_or(""));
    if (static_cast<double>(mask.size()) != allowed) continue;  // the mask of another moment
    const std::vector<int> owned = parse_cpu_list(context.snapshot_value("job.cpus_owned"));
    return !owned.empty() && static_cast<double>(cores_of(context, mask)) >=
                                 context.threshold("max_share") * static_cast<double>(cores_of(context, owned));
  }
  return false;
}

/// Waiting for a cpu of the measured processes, in s/s: of all of their threads, as far as these can be estimated.
double waited_by_threads(const RuleContext& context) {
  double sum = 0;
  for (const std::size_t channel : context.channels("process.wait_time")) {
    if (const auto all = estimated_wait(context, context.telemetry.channels[channel].instance)) {
      sum += *all;
      continue;
    }
    const double own = mean_inside(channel_rate(context, channel, 1e-9, "s/s").values, {0, context.telemetry.samples});
    sum += std::isnan(own) ? 0 : own;
  }
  return sum;
}

/// One of the values: cpus are whole.
double usual_of(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  return values.empty() ? std::nan("") : upper_median<double>(values);
}

std::vector<Finding> check(const RuleContext& context) {
  const Interval whole{0, context.telemetry.samples};
  const std::vector<Interval> changed = changed_by_reveal(context);
  const auto mean_of_job = [&](std::vector<double> series) {
    return mean_inside(outside_of(std::move(series), changed), whole);
  };
  const double allowed = usual_of(outside_of(context.total("job.cpus_allowed"), changed));
  const double owned = usual_of(context.total("job.cpus_owned"));
  if (!(allowed >= 1) || !(owned >= 1)) throw Unavailable("not measured: job.cpus_allowed and job.cpus_owned");
  if (allowed >= context.threshold("max_share") * owned) return {};

  const double running = mean_of_job(context.total("job.running"));
  const std::vector<double> busiest = busiest_allowed(context, changed);
  if (busiest.empty()) throw Unavailable("not measured: busy time per cpu the job may use");
  const auto busy_seconds =
      std::count_if(busiest.begin(), busiest.end(), [&](double busy) { return busy > context.threshold("min_busy"); });
  const double busy_share = static_cast<double>(busy_seconds) / static_cast<double>(busiest.size());
  if (static_cast<double>(busy_seconds) < context.threshold("min_seconds")) return {};
  if (busy_share < context.threshold("min_busy_share")) return {};
  const auto used = rate(context, "job.cpu_time", 1e-9, "cpus");
  const double used_cpus = used ? mean_of_job(used->values) : std::nan("");
  if (std::isnan(used_cpus)) throw Unavailable("not measured: job.cpu_time");
  // job.running counts processes by their main thread; a process may have more threads that run, or wait for a cpu.
  const auto waiting = rate(context, "job.wait_time", 1e-9, "threads");
  double ready = std::fmax(running, waiting ? used_cpus + mean_of_job(waiting->values) : std::nan(""));
  if (changed.empty()) ready = std::fmax(ready, used_cpus + waited_by_threads(context));
  // One busy thread fills one cpu and needs no second one: narrow, but not too narrow. Helper threads of the ranks take
  // some percent of each cpu.
  constexpr double kHelpers = 0.05;
  if (ready < allowed + std::max(context.threshold("min_more_runnable"), kHelpers * allowed)) return {};
  // Only a crowd on one thread of each core needs the others, too.
  constexpr double kCrowd = 1.5;
  if (ready < kCrowd * allowed && reaches_the_cores(context, allowed)) return {};
  // The narrow cpus must be busy with the job: with an outsider's work there, wider masks are not the first remedy.
  if (used_cpus < context.threshold("min_own_share") * allowed * busy_share) return {};

  const bool binds = !(context.snapshot_value("env.OMP_PROC_BIND") + context.snapshot_value("env.GOMP_CPU_AFFINITY") +
                       context.snapshot_value("env.KMP_AFFINITY"))
                          .empty();
  JobValues values{{"owned_cpus", fmt::format("{:.0f}", owned)}};
  if (binds) values["binds_threads"] = "yes";
  Finding finding = context.finding(values);
  finding.severity = Severity::warning;
  finding.confidence = Confidence::certain;
  finding.intervals = spans_outside(context, changed);
  finding.interventions = interventions_of(context);
  for (const int cpu : parse_cpu_list(context.snapshot_value("job.cpus_allowed"))) {
    finding.instances.push_back("cpu" + std::to_string(cpu));
  }

  const double useful = std::min(ready, owned);
  double seconds = 0;
  for (const TimeSpan& span : finding.intervals) seconds += span.seconds();
  finding.impact.seconds = seconds * busy_share * (1 - allowed / useful);
  finding.impact.percent = 100 * *finding.impact.seconds / job_seconds(context);
  finding.impact.how =
      fmt::format("{} threads were ready to run on average, but could use only {} of {} cpus of the job", number(ready),
                  number(allowed), number(owned));
  finding.impact.at_most = true;

  const auto fact = [&](std::string_view metric, double observed, std::optional<double> expected,
                        std::string_view unit) {
    Evidence evidence;
    evidence.metric = metric;
    evidence.node = context.telemetry.node;
    evidence.feature = "mean";
    evidence.observed = observed;
    evidence.expected = expected;
    evidence.unit = unit;
    evidence.span = finding.intervals.front();
    return evidence;
  };
  finding.evidence.push_back(fact("job.cpus_allowed", allowed, owned, "cpus"));
  finding.evidence.back().feature = "level";
  if (running >= allowed) finding.evidence.push_back(fact("job.running", running, allowed, "processes"));
  finding.evidence.push_back(fact("job.cpu_time", used_cpus, useful, "cpus"));
  if (const auto wait = cpu_wait(context)) {
    const double waited = mean_of_job(wait->values);
    if (!std::isnan(waited)) finding.evidence.push_back(fact(wait->metric, waited, 0, wait->unit));
  }

  const bool is_over = !changed.empty() && changed.back().end == whole.end;
  const std::string_view may = is_over ? "could" : "may";
  finding.sentence = fmt::format(
      "The job's processes {} use only {} of the {} cpus the job owns on {}, and {} threads were ready to run on "
      "average; the {}cpu that they {} use was full for {:.0f} % of the time.",
      may, number(allowed), number(owned), context.telemetry.node, number(ready), allowed > 1 ? "busiest " : "", may,
      100 * busy_share);
  finding.runner_up = {
      "",
      fmt::format("too many threads: the cpu mask is the first limit, as it keeps them off {} of {} cpus of the job",
                  number(owned - allowed), number(owned))};
  return {finding};
}

const RegisteredRule kRule{{
    .id = "cpu.affinity_too_narrow",
    .title = "The job is confined to fewer cpus than it owns",
    .looks_for = "Processes that may run on fewer cpus than the job owns (job.cpus_allowed against job.cpus_owned), "
                 "while the allowed cpus are full and more threads are ready to run (job.running, job.wait_time).",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::cpu,
    .order = 30,
    .look_alikes = "cpu.outsider,one busy thread,one thread on each core,helper threads",
    .proof = Proof::real,
    .thresholds = {{"max_share", 0.6, "ratio", "allowed cpus per owned cpu below which a mask is narrow"},
                   {"min_busy", 0.95, "ratio", "utilisation from which the busiest allowed cpu counts as full"},
                   {"min_busy_share", 0.5, "ratio", "least part of the job in which that cpu is full"},
                   {"min_seconds", 5, "s", "least time in which that cpu is full"},
                   {"min_more_runnable", 0.4, "processes",
                    "mean runnable processes beyond the allowed cpus, and at least 5 % of these"},
                   {"min_own_share", 0.7, "ratio", "least part of the full cpus that the job itself used"}},
    .user_remedy =
        {"export SRUN_CPUS_PER_TASK={cpus_per_task}   # for each srun: since Slurm 22.05 it does not inherit sbatch -c",
         {"srun --cpus-per-task={cpus_per_task}   # for this srun alone", kOr},
         {"srun --cpu-bind=none   # if a launcher binds by itself", "job", kIf},
         {"grep Cpus_allowed_list /proc/self/status   # in the shell that starts the job. Fewer than {owned_cpus} "
          "cpus: this shell has the narrow mask; {owned_cpus} or more: it was set later, by a launcher or the program",
          "!job"},
         {"unset OMP_PROC_BIND GOMP_CPU_AFFINITY KMP_AFFINITY   # they bind the threads of this job", "binds_threads"}},
    .advice = {{"Start the job without taskset, numactl or another launcher that binds it, or from a shell that may "
                "use more cpus: which of them set the mask is not known.",
                "!job"}},
    .admin_remedy = {{"slurm.conf: TaskPlugin=task/cgroup,task/affinity   # masks that follow the allocation", "job"}},
    .verify = {.command = "grep Cpus_allowed_list /proc/self/status",
               .where = "inside the next run",
               .expected = "all cpus that the job owns on the node, in its ranks together"},
    .sources = {"https://slurm.schedmd.com/sbatch.html#OPT_cpus-per-task",
                "https://slurm.schedmd.com/srun.html#OPT_cpu-bind", "https://github.com/pytorch/pytorch/issues/101850"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::cpu_affinity
