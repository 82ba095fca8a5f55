// A cpu quota held the job, or one of its ranks, back: the kernel counts for how long, so nothing has to be inferred.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::cpu_throttled {
namespace {

struct Held {
  MetricSeries signal;   // cpus held back
  std::string instance;  // the rank, or "" for the whole job
};

/// The job's own group, or the rank that was held back more than it: containers and batch systems limit one or the
/// other, and a limit around the whole job holds back every rank alike.
std::optional<Held> held_back(const RuleContext& context) {
  constexpr double kAlike = 1.1;
  std::optional<Held> most;
  double largest = -1;
  for (const std::string_view metric : {"cgroup.cpu_throttled_time", "process.throttled_time"}) {
    for (const std::size_t channel : context.channels(metric)) {
      Held held{channel_rate(context, channel, 1e-9, "cpus"),
                metric.starts_with("process.") ? context.telemetry.channels[channel].instance : ""};
      const double mean = mean_inside(held.signal.values, {0, held.signal.values.size()});
      if (std::isnan(mean)) continue;
      if (mean > kAlike * largest || largest <= 0) {
        most = std::move(held);
      } else if (mean > largest / kAlike) {
        most->instance.clear();  // no single group
      }
      largest = std::max(largest, mean);
    }
  }
  return most;
}

/// A quota that was there from the first second leaves no outside to compare with; its own counter needs none.
std::vector<Excursion> episodes(const RuleContext& context, const MetricSeries& held) {
  auto found = excursions_of(context, held.values, context.threshold("min_held"), context.threshold("min_score"),
                             Cause::external);
  const Interval whole{0, context.telemetry.samples};
  const double mean = mean_inside(held.values, whole);
  const bool brief = job_seconds(context) < context.threshold("min_seconds");
  const auto event = [](const Excursion& excursion) { return !excursion.recurring; };
  if (brief || mean < context.threshold("min_held") || std::any_of(found.begin(), found.end(), event)) return found;
  return {{.at = whole, .inside = mean, .outside = kNaN, .score = 0, .beyond = true, .recurring = false}};
}

/// Whole cpus that the tightest quota feeds.
JobValues quota(const RuleContext& context) {
  double least = std::nan("");
  for (const std::size_t channel : context.channels("group.cpu_quota")) {
    least = std::fmin(least, mean_inside(context.telemetry.series(channel), {0, context.telemetry.samples}) * 1e-9);
  }
  if (!(least >= 1)) return {};
  return {{"quota_cpus", fmt::format("{:.0f}", std::floor(least))}};
}

/// Cpus that the group which was held back used; those of the job where these are not measured.
double used_by(const RuleContext& context, const Held& held, Interval at, double by_job) {
  const auto channels = context.channels("process.cpu_time", held.instance);
  if (held.instance.empty() || channels.empty()) return by_job;
  const double own = mean_inside(channel_rate(context, channels.front(), 1e-9, "cpus").values, at);
  return std::isnan(own) ? by_job : own;
}

Finding describe(const RuleContext& context, const Held& held, const Excursion& excursion,
                 std::span<const Interval> all) {
  Finding finding = finding_at(context, excursion.at, quota(context));
  const double length = context.seconds(excursion.at.length());
  if (!held.instance.empty()) finding.instances = {held.instance};
  finding.confidence = Confidence::certain;
  const auto used = rate(context, "job.cpu_time", 1e-9, "cpus");
  const double got = used ? mean_inside(used->values, excursion.at) : std::nan("");
  const double ran = used_by(context, held, excursion.at, got);
  // The lost part of the time in which it was ready to run: held back / (held back + run).
  const double lost = std::isnan(ran) ? std::min(excursion.inside, 1.0) : excursion.inside / (excursion.inside + ran);
  set_loss(context, finding, lost * length,
           std::isnan(ran) ? fmt::format("it was ready to use {} more; the number that it used was not measured",
                                         counted(excursion.inside, "cpu"))
                           : fmt::format("it used {}, and was ready to use {} more", counted(ran, "cpu"),
                                         number(excursion.inside)));
  Evidence evidence = evidence_of(context, held.signal, excursion);
  evidence.instance = held.instance;
  if (std::isnan(excursion.outside)) evidence.expected.reset();
  evidence.detectors = {Method::kernel_counter};
  finding.evidence.push_back(std::move(evidence));
  add_contrast(context, finding, used, excursion.at, all);
  const auto usual = inside_outside(context, used, excursion.at, all);
  finding.sentence = fmt::format(
      "A cpu quota held back {} on {} for {}: {}it was ready to use {} more.",
      held.instance.empty() ? "the job" : context.rank_name(held.instance), context.telemetry.node, duration(length),
      std::isnan(got) ? ""
                      : fmt::format("the job used {} there{}, and ", counted(got, "cpu"),
                                    usual ? fmt::format(" (usually {})", number(usual->outside)) : ""),
      number(excursion.inside));
  finding.runner_up = {"", "a busy cpu: the kernel counted this time as throttled, not as waiting for a cpu"};
  return finding;
}

std::vector<Finding> check(const RuleContext& context) {
  const auto held = held_back(context);
  if (!held) throw Unavailable("not measured: throttled time of the job's control groups (cpu.stat)");
  const auto found = episodes(context, held->signal);
  const std::vector<Interval> all = places(found);
  std::vector<Finding> findings;
  for (const Excursion& excursion : found) {
    if (!excursion.recurring) findings.push_back(describe(context, *held, excursion, all));
  }
  return findings;
}

const RegisteredRule kRule{{
    .id = "cpu.cfs_throttled",
    .title = "A cpu quota throttles the job",
    .looks_for = "Intervals in which the kernel refused cpu time because of a quota: cgroup.cpu_throttled_time, or "
                 "process.throttled_time of one rank.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::cpu,
    .order = 20,
    .look_alikes = "the job's own threads",
    .proof = Proof::real,
    .thresholds = {{"min_held", 0.02, "cpus", "least cpu time refused, beyond the usual level"},
                   {"min_seconds", 3, "s", "shortest interval"},
                   kMinScore,
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy =
        {{"grep -rs --include=cpu.max -v ^max /sys/fs/cgroup   # on {node}, in the next run: groups with a quota, and "
          "its period",
          "!cgroup_v1"},
         {"cat /sys/fs/cgroup/cpu$(grep -E ':cpu[,:]' /proc/self/cgroup | cut -d: -f3)/cpu.cfs_quota_us   # in the "
          "job script of the next run: -1 means no quota",
          "cgroup_v1"},
         "export OMP_NUM_THREADS={quota_cpus}   # no more threads than the quota allows"},
    .advice =
        {{"Start no more threads than the quota allows (quota divided by period).", "quota_cpus"},
         {"Tell the administrators that a cpu quota held the job back on {node} at that time: below one cpu, it slows "
          "down even a single thread.",
          "!quota_cpus"},
         {"In a container, request whole cpus: docker run --cpuset-cpus instead of --cpus; in Kubernetes, whole "
          "cpus with the static cpu manager, or no cpu limit.",
          kOr}},
    .admin_remedy = {{"grep -rs --include=cpu.max -v ^max /sys/fs/cgroup   # on {node}: groups with a quota",
                      "!cgroup_v1,!quota_cpus"},
                     {"grep -rsv --include=cpu.cfs_quota_us ^-1 /sys/fs/cgroup/cpu   # on {node}: groups with a quota, "
                      "in microseconds",
                      "cgroup_v1,!quota_cpus"},
                     {"cgroup.conf: ConstrainCores=yes   # give cpus, not quotas: cpu.max stays \"max\"", "job"}},
    .verify = {.expected = "nr_throttled in cpu.stat of the job's group does not grow"},
    .sources = {"https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files",
                "https://docs.kernel.org/scheduler/sched-bwc.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::cpu_throttled
