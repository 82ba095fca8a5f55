// A flood of dirty pages: writes pile up in the page cache, and the next process that writes or syncs waits for all of
// them.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::mem_writeback {
namespace {

/// Write-back goes on after the writer stopped; the kernel starts it after 5 s and expires pages after 30 s.
constexpr double kLongestTailSeconds = 30;
constexpr double kTailLevel = 0.2;

/// How the job paid between the first dirty page and the last one written back.
struct Cost {
  Interval at;
  std::vector<std::pair<MetricSeries, InsideOutside>> signs;
  double seconds = 0;
  bool measured = false;  // whether the job's loss was measured
  std::string how;
};

/// The flood and its remaining writes: until Dirty and Writeback are back near their usual level, or the next flood
/// begins.
Interval with_tail(const RuleContext& context, Interval flood, std::span<const Interval> all) {
  auto pending = level(context, "mem.dirty", "bytes");
  if (!pending) return flood;
  if (const auto writeback = level(context, "mem.writeback", "bytes")) {
    for (std::size_t t = 0; t < pending->values.size(); ++t) pending->values[t] += writeback->values[t];
  }
  const double usual = mean_outside(pending->values, all);
  double peak = 0;
  for (std::size_t t = flood.begin; t < flood.end; ++t) peak = std::max(peak, pending->values[t]);
  const double low = (std::isnan(usual) ? 0 : usual) + kTailLevel * (peak - (std::isnan(usual) ? 0 : usual));
  std::size_t last = std::min(context.telemetry.samples, flood.end + context.steps(kLongestTailSeconds));
  for (const Interval& other : all) {
    if (other.begin >= flood.end) last = std::min(last, other.begin);
  }
  std::size_t end = flood.end;
  while (end < last && !(pending->values[end] < low)) ++end;
  return {flood.begin, end};
}

Cost cost_of(const RuleContext& context, Interval flood, std::span<const Interval> all) {
  Cost cost;
  cost.at = with_tail(context, flood, all);
  const double length = context.seconds(cost.at.length());
  const auto processes = level(context, "job.processes", "processes");
  const double width = processes ? std::max(1.0, mean_inside(processes->values, cost.at)) : 1.0;
  struct Sign {
    std::optional<MetricSeries> signal;
    double least;
    double per;  // how many of it make one lost second per second
    std::string_view words;
  };
  // The node's own io pressure includes the writer's: shown, but not counted as the job's loss.
  const Sign signs[] = {
      {level(context, "job.blocked", "processes"), context.threshold("min_blocked"), width, "blocked on storage"},
      {cpu_wait(context), context.threshold("min_wait"), width, "waiting for a cpu"},
      {rate(context, "pressure.io_some", 1e-9, "s/s"), context.threshold("min_pressure"), 0, ""},
  };
  for (const Sign& sign : signs) {
    if (!sign.signal) continue;
    const auto change = inside_outside(context, *sign.signal, cost.at, all);
    cost.measured = cost.measured || (change && sign.per > 0);
    if (!change || change->excess() < sign.least) continue;
    cost.signs.emplace_back(*sign.signal, *change);
    if (sign.per == 0) continue;
    const double lost = std::min(1.0, change->excess() / sign.per) * length;
    if (lost > cost.seconds) {
      cost.seconds = lost;
      cost.how = fmt::format("{} more of its processes than usual were {} for {} s, on average (it had {})",
                             number(change->excess()), sign.words, number(length), quantity(width, "processes"));
    }
  }
  return cost;
}

struct Writers {
  double own = 0;        // bytes per second by the job, inside
  double own_usual = 0;  // and outside of all floods; NaN where there is no such time
  double all = 0;

  [[nodiscard]] bool outsider(double min_share) const { return all - own >= min_share * all; }
};

Finding describe(const RuleContext& context, const MetricSeries& dirtied, const Excursion& excursion, const Cost& cost,
                 const Writers& writers, bool by_outsider) {
  const Interval at = excursion.at;
  const double length = context.seconds(at.length());
  Finding finding = finding_at(context, at, by_outsider ? JobValues{{"outsider", "yes"}} : JobValues{});
  finding.confidence = excursion.beyond ? Confidence::likely : Confidence::possible;

  finding.evidence.push_back(evidence_of(context, dirtied, excursion));
  finding.evidence.back().detectors = seen_by(confirmed_by(context.detection, at));
  Evidence own = finding.evidence.back();
  own.metric = "process.write_bytes";
  own.observed = writers.own;
  own.expected = std::isnan(writers.own_usual) ? std::nullopt : std::optional(writers.own_usual);
  own.score.reset();
  own.detectors.clear();
  finding.evidence.push_back(own);
  for (const auto& [signal, change] : cost.signs) {
    finding.evidence.push_back(evidence_of(context, signal, change, cost.at));
  }
  for (const std::string_view metric : {"mem.dirty", "mem.writeback"}) {
    const Interval excluded[] = {cost.at};
    add_contrast(context, finding, level(context, metric, "bytes"), cost.at, excluded);
  }

  finding.sentence = fmt::format(
      "{} were written into the page cache of {} for {} (usually {}), {}.", quantity(excursion.inside, "bytes/s"),
      context.telemetry.node, duration(length), quantity(excursion.outside, "bytes/s"),
      by_outsider
          ? fmt::format("{:.0f} % of it by processes outside the job", 100 * (1 - writers.own / excursion.inside))
          : std::string("by the job itself"));
  if (cost.seconds > 0) {
    set_loss(context, finding, cost.seconds, cost.how);
  } else {
    set_loss(context, finding, std::nullopt,
             cost.measured ? "none seen: no more processes of the job waited than usual"
                           : "not known: the waiting of the job was not measured");
  }
  finding.runner_up = {"", fmt::format("a busy disk alone: {} were written into memory first",
                                       quantity(excursion.inside * length, "bytes"))};
  return finding;
}

std::vector<Finding> check(const RuleContext& context) {
  const MetricSeries dirtied =
      needed(rate(context, "vmstat.nr_dirtied", context.page_bytes(), "bytes/s"), "vmstat.nr_dirtied");
  const MetricSeries own = needed(rate(context, "process.write_bytes", 1, "bytes/s"),
                                  "process.write_bytes, so the writing process is not known");

  const auto floods = excursions_of(context, dirtied.values, context.threshold("min_rate") * 1e6,
                                    context.threshold("min_score"), Cause::external);
  const std::vector<Interval> all = places(floods);

  std::vector<Finding> findings;
  std::optional<Finding> habit;
  double habit_seconds = 0;
  for (const Excursion& flood : floods) {
    const Writers writers{mean_inside(own.values, flood.at), mean_outside(own.values, all), flood.inside};
    if (std::isnan(writers.own)) continue;  // the origin of the flood is unknown
    const bool by_outsider = writers.outsider(context.threshold("min_outsider_share"));
    if (by_outsider && !measures_every_process(context, flood.at)) continue;  // the others may be the job's
    const Cost cost = cost_of(context, flood.at, all);
    if (flood.most) {  // writing may be what this job does, by the job has more processes than reveal measures
                       // individually
      const auto own_change = inside_outside(context, own, flood.at, all);
      if (!by_outsider || !own_change || own_change->excess() > 0.1 * flood.inside) continue;
    }
    if (by_outsider && !flood.recurring) {
      const double written = (flood.inside - flood.outside) * context.seconds(flood.at.length());
      // Without a sign of waiting only a large one is worth a note, so that its episode does not stay unexplained.
      if (!flood.beyond || (cost.signs.empty() && written < context.threshold("min_noted") * 1e6)) continue;
      findings.push_back(describe(context, dirtied, flood, cost, writers, by_outsider));
      continue;
    }
    // The job's own checkpoints recur: one note, and only if they cost a visible part of the run.
    Finding finding = describe(context, dirtied, flood, cost, writers, by_outsider);
    habit_seconds += finding.impact.seconds.value_or(0);
    if (!habit) {
      habit = std::move(finding);
    } else {
      habit->intervals.push_back(finding.intervals.front());
      if (!habit->impact.seconds) habit->impact.how = finding.impact.how;
    }
  }
  if (habit && 100 * habit_seconds / job_seconds(context) >= context.threshold("min_habit_percent")) {
    habit->severity = Severity::notice;
    habit->impact.seconds = habit_seconds;
    habit->impact.percent = 100 * habit_seconds / job_seconds(context);
    findings.push_back(*std::move(habit));
  }
  return findings;
}

const RegisteredRule kRule{{
    .id = "mem.writeback_stall",
    .title = "Many writes went into the page cache",
    .looks_for = "Intervals in which many pages were written to the page cache (vmstat.nr_dirtied), and whether "
                 "processes of the job were blocked (job.blocked), waited for a cpu or for io (pressure.io_some).",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::storage,
    .order = 50,
    .look_alikes = "a busy disk,the job's own checkpoints",
    .proof = Proof::real,
    .whole_machine = true,
    .thresholds = {{"min_rate", 30, "MB/s", "least rate of pages dirtied above the usual level"},
                   {"min_seconds", 3, "s", "shortest interval"},
                   kMinScore,
                   {"min_outsider_share", 0.6, "ratio",
                    "part of the writes by other processes from which an outsider is reported"},
                   {"min_blocked", 0.1, "processes", "least additional processes of the job in uninterruptible sleep"},
                   {"min_wait", 0.08, "s/s", "least extra run-queue wait of the job"},
                   {"min_pressure", 0.05, "s/s", "least extra io pressure of the node"},
                   {"min_noted", 500, "MB", "least amount that is reported if the job did not wait"},
                   {"min_habit_percent", 5, "percent", "least cost of the job's own recurring bursts that is reported"},
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy =
        {{"grep -E 'Dirty|Writeback' /proc/meminfo   # on {node}, in the next run: pages that wait for the disk",
          "outsider"},
         {"#SBATCH --exclusive   # the next run then has the node to itself; costs whole nodes", "job,outsider"}},
    .advice = {{"Write checkpoints from one rank, less often, or in the background "
                "(torch.distributed.checkpoint.async_save).",
                "torch,!outsider"},
               {"Write checkpoints from one rank, less often, or in the background.", "!torch,!outsider"},
               {"Write to storage of the node and copy the files later.", "!outsider", kOr}},
    .admin_remedy = {{"sysctl vm.dirty_background_bytes=268435456 vm.dirty_bytes=2147483648   # changes the node until "
                      "its next boot: the kernel writes to the disk from 256 MiB on, and holds writers back from 2 GiB "
                      "on; a job's own checkpoints then wait for the disk sooner",
                      "outsider"},
                     {"cgroup.conf: ConstrainRAMSpace=yes   # page cache is then charged to the job that wrote it",
                      "job"}},
    .verify = {.expected = "pages dirtied per second and job.blocked are at their usual level"},
    .sources = {"https://docs.kernel.org/admin-guide/sysctl/vm.html", "https://docs.kernel.org/accounting/psi.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::mem_writeback
