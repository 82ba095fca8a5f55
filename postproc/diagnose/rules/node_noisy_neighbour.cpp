// Others on a shared node took resources that the job needed: cpus, a disk, or memory. The finding does not identify
// them: it has no name, user or command of theirs.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/busiest_disk.h"
#include "postproc/diagnose/found_before.h"
#include "postproc/diagnose/outsiders.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::node_noisy_neighbour {
namespace {

/// The kernel writes pages back up to 30 s after they were made dirty, and a disk may take as long for them.
constexpr double kWriteBackSeconds = 60;

/// An interval in which the job waited for a resource and got less done.
struct SlowedInterval {
  Excursion wait;
  InsideOutside used;
};

std::vector<SlowedInterval> slowed_intervals(const RuleContext& context, const MetricSeries& wait,
                                             const MetricSeries& used) {
  const auto found =
      excursions_of(context, wait.values, context.threshold("min_stall"), context.threshold(kMinScore.name));
  const std::vector<Interval> all = places(found);
  std::vector<SlowedInterval> intervals;
  for (const Excursion& excursion : found) {
    if (excursion.recurring || !excursion.beyond) continue;  // recurring excursions are the job's own phases
    const auto got = inside_outside(context, used, excursion.at, all);
    if (got && got->fall() >= context.threshold("min_slowed")) intervals.push_back({excursion, *got});
  }
  return intervals;
}

/// True if another rule reports this interval, with its cause and remedy.
bool is_reported(const RuleContext& context, Interval at) {
  return found_beside(context, at, [](const Finding& one) {
    return one.subsystem == Subsystem::storage || one.subsystem == Subsystem::memory;
  });
}

Finding describe(const RuleContext& context, const SlowedInterval& slowed, const MetricSeries& wait,
                 const MetricSeries& used, std::string sentence) {
  const Interval at = slowed.wait.at;
  Finding finding = finding_at(context, at);
  set_loss(context, finding, slowed.used.fall() * context.seconds(at.length()),
           fmt::format("the job used {} instead of {} while it waited", counted(slowed.used.inside, "cpu"),
                       number(slowed.used.outside)));
  const bool shared = !context.snapshot_value("node.other_jobs").empty();
  finding.confidence = shared ? Confidence::likely : Confidence::possible;
  finding.evidence = {evidence_of(context, wait, slowed.wait), evidence_of(context, used, slowed.used, at)};
  finding.evidence.front().detectors = seen_by(confirmed_by(context.detection, at));
  finding.sentence = std::move(sentence);
  return finding;
}

double sum_inside(const RuleContext& context, const std::optional<MetricSeries>& rate, Interval at) {
  return rate ? mean_inside(rate->values, at) * context.seconds(at.length()) : std::nan("");
}

/// Bytes the job moved itself: of its control group, of its processes, whichever is more. Its writes may reach the disk
/// much later. NaN where neither was measured.
double own_bytes(const RuleContext& context, Interval at) {
  const Interval written{at.begin - std::min(at.begin, context.steps(kWriteBackSeconds)), at.end};
  const auto either = [&](std::string_view group, std::string_view process, Interval when) {
    return std::fmax(sum_inside(context, rate(context, group, 1, "bytes/s"), when),
                     sum_inside(context, rate(context, process, 1, "bytes/s"), when));
  };
  return either("cgroup.read_bytes", "process.read_bytes", at) +
         either("cgroup.write_bytes", "process.write_bytes", written);
}

/// A process that ends between two samples takes its bytes with it; only a control group has counted them. Without one,
/// the bytes of the job are known while hardly any process is started, and each has metrics of its own.
bool knows_own_bytes(const RuleContext& context, Interval at) {
  const auto read = rate(context, "cgroup.read_bytes", 1, "bytes/s");
  const auto written = rate(context, "cgroup.write_bytes", 1, "bytes/s");
  const bool counted =
      read && written && std::isfinite(mean_inside(read->values, at) + mean_inside(written->values, at));
  if (counted && group_counts_cached_writes(context)) return true;
  const auto started = rate(context, "cpu.forks", 1, "/s");
  return started && mean_inside(started->values, at) <= context.threshold("max_started") &&
         measures_every_process(context, at);
}

double bytes_moved(const RuleContext& context, const BusiestDisk& disk, Interval at) {
  double bytes = 0;
  if (disk.name.empty()) return bytes;
  for (const std::string_view metric : {"disk.read_bytes", "disk.write_bytes"}) {
    for (const std::size_t channel : context.channels(metric, disk.name)) {
      bytes += sum_inside(context, channel_rate(context, channel, 1, "bytes/s"), at);
    }
  }
  return bytes;
}

void add_disk(const RuleContext& context, const MetricSeries& used, std::vector<Finding>& findings) {
  const auto wait = pressure_wait(context, Pressure::io_some);
  if (!wait) return;
  for (const SlowedInterval& slowed : slowed_intervals(context, *wait, used)) {
    const Interval at = slowed.wait.at;
    const BusiestDisk disk = busiest_disk(context, at);
    if (disk.busy < context.threshold("min_disk_busy") || is_reported(context, at)) continue;
    if (!knows_own_bytes(context, at)) continue;
    const double bytes = bytes_moved(context, disk, at);
    const double others = bytes - own_bytes(context, at);
    if (!(others >= context.threshold("min_others") * bytes)) continue;
    const double length = context.seconds(at.length());
    Finding finding = describe(context, slowed, *wait, used,
                               fmt::format("Other processes on {} kept disk {} busy {} % of the time for {}: {} of the "
                                           "{} that it moved were not the job's; the job used {} instead of {}.",
                                           context.telemetry.node, disk.name, number(100 * disk.busy), duration(length),
                                           quantity(others, "bytes"), quantity(bytes, "bytes"),
                                           counted(slowed.used.inside, "cpu"), number(slowed.used.outside)));
    finding.subsystem = Subsystem::storage;
    finding.instances = {disk.name};
    Evidence moved = evidence_of(context, MetricSeries{"disk.read_bytes + disk.write_bytes", "bytes/s", {}},
                                 InsideOutside{bytes / length, (bytes - others) / length, 0}, at);
    moved.instance = disk.name;
    finding.evidence.push_back(std::move(moved));
    finding.runner_up = {"mem.writeback_stall", "pages that wait to be written: the job itself wrote little before"};
    findings.push_back(std::move(finding));
  }
}

/// The memory of the job and of others, in bytes.
struct MemoryUse {
  double total = 0;
  double available = 0;
  double own = 0;

  [[nodiscard]] double others() const { return total - available - own; }
};

MemoryUse memory_in(const RuleContext& context, Interval at) {
  const auto mean = [&](std::string_view metric) {
    const auto values = level(context, metric, "bytes");
    return values ? mean_inside(values->values, at) : std::nan("");
  };
  const double of_group = mean("cgroup.memory_current");
  // Memory of processes that are not measured would be that of others.
  const bool known = !std::isnan(of_group) || measures_every_process(context, at);
  return {mean("mem.total"), mean("mem.available"), known ? std::fmax(of_group, mean("process.rss")) : std::nan("")};
}

void add_memory(const RuleContext& context, const MetricSeries& used, std::vector<Finding>& findings) {
  const auto wait = pressure_wait(context, Pressure::memory_some);
  if (!wait) return;
  for (const SlowedInterval& slowed : slowed_intervals(context, *wait, used)) {
    const Interval at = slowed.wait.at;
    const MemoryUse use = memory_in(context, at);
    if (is_reported(context, at) || !(use.available <= context.threshold("max_available") * use.total)) continue;
    if (!(use.others() >= context.threshold("min_others") * (use.total - use.available))) continue;
    Finding finding = describe(
        context, slowed, *wait, used,
        fmt::format("Other processes on {} used {} of its {} of memory for {}, the job {}: {} were left, and the job "
                    "used {} instead of {}.",
                    context.telemetry.node, quantity(use.others(), "bytes"), quantity(use.total, "bytes"),
                    duration(context.seconds(at.length())), quantity(use.own, "bytes"),
                    quantity(use.available, "bytes"), counted(slowed.used.inside, "cpu"), number(slowed.used.outside)));
    finding.subsystem = Subsystem::memory;
    const auto available = level(context, "mem.available", "bytes");
    add_contrast(context, finding, available, at, {});
    finding.runner_up = {"mem.leak_oom_risk", "the job's own memory: it is the smaller part"};
    findings.push_back(std::move(finding));
  }
}

std::vector<Finding> check(const RuleContext& context) {
  const MetricSeries used = needed(rate(context, "job.cpu_time", 1e-9, "cpus"), "job.cpu_time");
  const bool knows_jobs = outsider_time(context, Outsiders::jobs).has_value();
  const bool knows_waits = pressure_wait(context, Pressure::io_some).has_value();
  if (!knows_jobs && !knows_waits) {
    throw Unavailable(
        "not measured: outsider.cpu_time and pressure.io_some, so the use by others on the node is not known");
  }
  std::vector<Finding> findings;
  if (knows_jobs) findings = outsider_findings(context);
  add_disk(context, used, findings);
  add_memory(context, used, findings);
  return findings;
}

const RegisteredRule kRule{{
    .id = "node.noisy_neighbour",
    .title = "Other jobs on the node use resources that the job needs",
    .looks_for = "The same intervals as cpu.outsider in which other jobs used most of that time (outsider.cpu_time); "
                 "and intervals in which the job waited for io or memory and made less progress, while a disk was busy "
                 "or memory was full mainly because of others.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::cpu,
    .order = 57,
    .look_alikes = "cpu.os_jitter,cpu.outsider,mem.writeback_stall,io.slow_reads,mem.leak_oom_risk,mem.swap_activity",
    .proof = Proof::real,
    .whole_machine = true,
    .thresholds =
        outsider_thresholds({{"min_stall", 0.1, "s/s", "disk and memory: least extra time in which work waited"},
                             {"min_slowed", 0.15, "ratio", "disk and memory: least fall of the cpu time of the job"},
                             {"min_others", 0.5, "ratio", "disk and memory: least part used by others"},
                             {"min_disk_busy", 0.6, "ratio", "disk: least part of the time with a request in flight"},
                             {"max_started", 5, "/s",
                              "disk: most processes started on the node, if no control group counts the job's bytes"},
                             {"max_available", 0.05, "ratio", "memory: largest part that may be available"}}),
    .user_remedy = {{"#SBATCH --exclusive   # the job then has the node to itself; costs whole nodes",
                     "job,other_jobs"},
                    {"squeue -w {nodes}   # in the next run: how many jobs share the node", "job"},
                    {"taskset -c {free_cpus}   # avoids the cpus that others used", "!job"}},
    .advice = {{"Request as many cpus and as much memory as the job uses: a shared node then reserves them.", kOr}},
    .admin_remedy =
        {"systemd-cgtop -b -n 2 --depth=4 | head -30   # control groups that use cpus, memory and disks now",
         {"cgroup.conf: ConstrainCores=yes ConstrainRAMSpace=yes   # with TaskPlugin=task/cgroup,task/affinity in "
          "slurm.conf",
          "job"},
         {"slurm.conf: ExclusiveUser=YES   # in the partition's line; OverSubscribe=EXCLUSIVE gives whole nodes", "job",
          kOr}},
    .verify = {.expected = "pressure is as low as in a run that has the node to itself"},
    .sources = {"https://docs.kernel.org/accounting/psi.html", "https://slurm.schedmd.com/cons_tres_share.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::node_noisy_neighbour
