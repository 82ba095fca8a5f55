// Pages of files that were dropped for lack of memory and read again soon: the files the job works on do not fit into
// the memory it has. A first read does not count, nor does a second one after the cache was dropped.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/diagnose/job_progress.h"
#include "postproc/diagnose/memory_signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::mem_reclaim {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

/// Bytes read again per second: those of the job's control group where they are counted, else those of the node.
std::optional<MetricSeries> read_again(const RuleContext& context) {
  if (auto own = rate(context, "memory_stat.workingset_refault_file", context.page_bytes(), "bytes/s")) return own;
  return rate(context, "vmstat.workingset_refault_file", context.page_bytes(), "bytes/s");
}

/// Signals of pages that were dropped for lack of memory, each in a unit of its own. A control group's own reclaim is
/// in one of the node's counters only, and version 1 counts only how often the limit was met.
std::vector<MetricSeries> reclaim(const RuleContext& context) {
  std::vector<MetricSeries> found;
  const double page = context.page_bytes();
  for (const std::string_view metric :
       {"memory_stat.pgscan", "vmstat.pgscan_direct", "vmstat.pgscan_kswapd", "vmstat.pgscan_file"}) {
    if (auto signal = rate(context, metric, page, "bytes/s")) found.push_back(*std::move(signal));
  }
  if (auto hits = rate(context, "group.memory_limit_hits", 1, "count/s")) found.push_back(*std::move(hits));
  return found;
}

/// Time in which some task waited for storage or for memory: the larger, for the same wait counts as both. The job's
/// own where its control group counts it.
std::optional<MetricSeries> longest_wait(const RuleContext& context, Interval at) {
  std::optional<MetricSeries> longest;
  for (const std::string_view group : {"cgroup.", "pressure."}) {
    for (const std::string_view kind : {"io_some", "memory_some"}) {
      auto signal = rate(context, std::string(group) + std::string(kind), 1e-9, "s/s");
      if (!signal || std::isnan(mean_inside(signal->values, at))) continue;
      if (!longest || mean_inside(signal->values, at) > mean_inside(longest->values, at)) longest = std::move(signal);
    }
    if (longest) return longest;
  }
  return longest;
}

std::optional<MetricSeries> reads(const RuleContext& context) {
  if (auto own = rate(context, "cgroup.read_bytes", 1, "bytes/s")) return own;
  return rate(context, "process.read_bytes", 1, "bytes/s");
}

JobValues values_of(const RuleContext& context, const std::optional<MemoryLimit>& limit) {
  JobValues values;
  if (!limit) return values;
  const double step = limit->bytes >= 2 * kGiB ? kGiB : kGiB / 16;
  const double more = std::ceil(2 * limit->bytes / step) * step;
  if (limit->group == "job") {
    if (fits_on_node(context, more)) values["memory_more"] = slurm_memory(more);
  } else {
    values["memory_group"] = limit->group;
  }
  values["memory_limit"] = slurm_memory(limit->bytes);
  return values;
}

/// A job that reads more than fits from its first epoch to its last has no baseline to compare with.
std::vector<Excursion> intervals(const RuleContext& context, const MetricSeries& again) {
  const double least = context.threshold("min_rate") * 1e6;
  const Interval whole{0, context.telemetry.samples};
  const double mean = mean_inside(again.values, whole);
  auto found = excursions_of(context, again.values, least, context.threshold(kMinScore.name));
  const auto habit = [](const Excursion& excursion) { return excursion.recurring; };
  const bool habits = std::any_of(found.begin(), found.end(), habit);
  std::erase_if(found, habit);
  if ((found.empty() || habits) && mean >= least && job_seconds(context) >= context.threshold("min_seconds")) {
    return {{.at = whole, .inside = mean, .outside = kNaN, .beyond = true}};
  }
  return found;
}

bool is_something_else(const RuleContext& context, const MetricSeries& again, const Excursion& excursion) {
  const auto memory_was_short = [&](const MetricSeries& signal) {
    const bool events = signal.unit == "count/s";
    const double least =
        events ? context.threshold("min_limit_hits") : context.threshold("min_scanned") * excursion.inside;
    return mean_inside(signal.values, excursion.at) >= least;
  };
  const std::vector<MetricSeries> signs = reclaim(context);
  if (signs.empty()) throw Unavailable("not measured: scanned pages (pgscan), and memory limits that were reached");
  // The cache was dropped.
  if (std::none_of(signs.begin(), signs.end(), memory_was_short)) return true;
  if (again.metric.starts_with("memory_stat.")) return false;
  // The signal counts the whole node: if the job itself read little, the files were those of others.
  const MetricSeries read = needed(reads(context), "bytes the job read from storage");
  return !(mean_inside(read.values, excursion.at) >= context.threshold("min_own") * excursion.inside);
}

void set_cost(const RuleContext& context, Finding& finding, const MetricSeries& wait, const Excursion& excursion,
              std::span<const Interval> all) {
  const double length = context.seconds(excursion.at.length());
  const auto change = inside_outside(context, wait, excursion.at, all);
  const double inside = mean_inside(wait.values, excursion.at);
  const double more = change ? std::max(0.0, change->excess()) : inside;
  set_most_loss(context, finding, more * length,
                fmt::format("some task waited for {} {} % of this time{}",
                            wait.metric.ends_with("io_some") ? "storage" : "memory", number(100 * inside),
                            change ? fmt::format(" (usually {} %)", number(100 * change->outside)) : ""));
}

std::string why_short(const RuleContext& context, const Excursion& excursion, const std::optional<MemoryLimit>& limit) {
  if (limit) {
    return fmt::format("the memory limit of {}, which includes cached files, was reached (control group {})",
                       quantity(limit->bytes, "bytes"), limit->group);
  }
  double scanned = 0;  // for lack of memory of the node
  for (const std::string_view metric : {"vmstat.pgscan_direct", "vmstat.pgscan_kswapd"}) {
    const auto signal = rate(context, metric, context.page_bytes(), "bytes/s");
    if (signal) scanned = std::max(scanned, mean_inside(signal->values, excursion.at));
  }
  return scanned >= context.threshold("min_scanned") * excursion.inside
             ? "no control group reached its limit, so the node was short of memory"
             : "the node had free memory, so a control group around the job was at its limit";
}

Finding describe(const RuleContext& context, const MetricSeries& again, const std::optional<MetricSeries>& wait,
                 const Excursion& excursion, const std::optional<WorkPace>& lost, std::span<const Interval> all) {
  const auto limit = limit_met(context, excursion.at);
  Finding finding = finding_at(context, excursion.at, values_of(context, limit));
  const double length = context.seconds(excursion.at.length());
  // The kernel frees memory on the time of the job, which does not count as waiting.
  if (lost) {
    set_loss(context, finding, lost->lost() * length, lost->words(context.watched()));
  } else {
    set_cost(context, finding, *wait, excursion, all);
  }
  const bool own = again.metric.starts_with("memory_stat.");
  const bool waited = wait && mean_inside(wait->values, excursion.at) >= context.threshold("min_wait");
  finding.confidence = waited && (own || limit) ? Confidence::likely : Confidence::possible;
  if (limit) finding.instances = {limit->group};
  finding.evidence = {evidence_of(context, again, excursion)};
  finding.evidence.front().detectors = seen_by(confirmed_by(context.detection, excursion.at));
  if (std::isnan(excursion.outside)) finding.evidence.front().expected.reset();
  const auto add_mean = [&](const MetricSeries& signal) {
    Evidence evidence = evidence_of(context, signal, {mean_inside(signal.values, excursion.at), 0, 0}, excursion.at);
    const auto change = inside_outside(context, signal, excursion.at, all);
    evidence.expected = change ? std::optional(change->outside) : std::nullopt;
    if (evidence.observed && *evidence.observed > 0) finding.evidence.push_back(std::move(evidence));
  };
  if (wait) add_mean(*wait);
  for (const MetricSeries& signal : reclaim(context)) add_mean(signal);
  if (const auto read = reads(context)) add_mean(*read);
  finding.sentence = fmt::format(
      "{} on {} were dropped from the page cache for lack of memory and read again, for {} at {}{}; {}.",
      own ? "Files of the job" : "Files", context.telemetry.node, duration(length),
      quantity(excursion.inside, "bytes/s"),
      std::isnan(excursion.outside) ? "" : " (usually " + quantity(std::max(0.0, excursion.outside), "bytes/s") + ")",
      why_short(context, excursion, limit));
  finding.runner_up = {
      "mem.swap_activity",
      "swap: pages of programs that are read back are counted separately, and these are pages of files"};
  return finding;
}

std::vector<Finding> check(const RuleContext& context) {
  const MetricSeries again = needed(read_again(context), "workingset_refault_file");
  const auto found = intervals(context, again);
  const std::vector<Interval> all = places(found);
  std::vector<Finding> findings;
  for (const Excursion& excursion : found) {
    if (is_something_else(context, again, excursion)) continue;
    const auto wait = longest_wait(context, excursion.at);
    const auto lost = slower_work(context, excursion.at);
    if (!wait && !lost)
      throw Unavailable("not measured: time in which work waited (PSI), and a fall of the job's pace");
    // Reading ahead hides it: no process waits, and the job is as fast as before.
    if (!lost && !(mean_inside(wait->values, excursion.at) >= context.threshold("min_wait"))) continue;
    findings.push_back(describe(context, again, wait, excursion, lost, all));
  }
  return findings;
}

const RegisteredRule kRule{{
    .id = "mem.reclaim_thrash",
    .title = "Files were dropped from the page cache and read again",
    .looks_for =
        "Intervals in which pages of files are read again soon after they were dropped (workingset_refault_file of "
        "the job's control group or of the node), memory was short (pgscan, group.memory_limit_hits), and work "
        "waited (io and memory pressure) or the job did less.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::memory,
    .order = 48,
    .look_alikes = "mem.swap_activity,io.slow_reads,a first read,a page cache that was dropped by hand",
    .proof = Proof::real,
    .thresholds = {{"min_rate", 20, "MB/s", "least rate of pages of files that are read again"},
                   {"min_seconds", 5, "s", "shortest interval"},
                   kMinScore,
                   {"min_scanned", 0.1, "ratio", "least scanned pages per page that is read again"},
                   {"min_limit_hits", 1, "1/s", "or: least allocations that reached the limit of a control group"},
                   {"min_own", 0.3, "ratio", "least part that the job itself read, if only the node was counted"},
                   {"min_wait", 0.03, "s/s",
                    "least time in which some task waited for storage or memory, unless the job did less meanwhile"},
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy =
        {{"#SBATCH --mem={memory_more}   # at least twice the limit of {memory_limit}, which includes cached files; in "
          "place of --mem-per-cpu or --mem-per-gpu",
          "job"},
         {"grep -E 'workingset_refault_file|^file ' /sys/fs/cgroup$(grep ^0:: /proc/self/cgroup | cut -d: "
          "-f3)/memory.stat   # inside the next run",
          "!cgroup_v1"},
         {"grep -E 'total_(workingset_refault_file|cache) ' /sys/fs/cgroup/memory$(grep :memory: "
          "/proc/self/cgroup | cut -d: -f3)/memory.stat   # inside the next run",
          "cgroup_v1"},
         "grep workingset_refault_file /proc/vmstat   # on {node}, twice in the next run: the number should not grow"},
    .advice = {{"Raise the memory limit where it was set for the job, for example to {memory_more}: at least twice "
                "{memory_limit}, toward which cached files count.",
                "memory_more,!job"},
               {"The limit of {memory_limit} is that of {memory_group}, not of the whole job: raise the --mem of that "
                "srun, or the limit of the container. Cached files count toward it.",
                "memory_group"},
               {"Read each file once and in order, in shards of some 100 MB, instead of picking samples at random.",
                kOr},
               {"Work on less data per node, or on more nodes: the files of one epoch then fit into memory.", kOr},
               {"Fewer workers and a smaller prefetch_factor of the DataLoader hold less in memory.", "torch", kOr}},
    .admin_remedy = {},
    .verify = {.command = "grep workingset_refault_file /proc/vmstat",
               .where = "on the node, twice after the first epoch of the next run",
               .expected = "nearly the same number"},
    .sources = {"https://docs.kernel.org/admin-guide/cgroup-v2.html#memory",
                "https://docs.kernel.org/accounting/psi.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::mem_reclaim
