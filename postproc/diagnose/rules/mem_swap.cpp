// Pages of running programs went to swap and had to come back: each of them is a wait for a disk.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/diagnose/memory_signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::mem_swap {
namespace {

/// Waiting for memory in the interval.
struct Waiting {
  std::optional<MetricSeries> signal;
  double inside = kNaN;
  double usual = kNaN;  // outside, if there is an outside
};

Waiting waiting_in(const RuleContext& context, Interval at, std::span<const Interval> all) {
  Waiting waiting{memory_wait(context)};
  if (!waiting.signal) return waiting;
  waiting.inside = mean_inside(waiting.signal->values, at);
  if (const auto change = inside_outside(context, waiting.signal, at, all)) waiting.usual = change->outside;
  return waiting;
}

double more_than_usual(const Waiting& waiting) {
  return std::isnan(waiting.usual) ? waiting.inside : std::max(0.0, waiting.inside - waiting.usual);
}

bool job_has_swap(const RuleContext& context) {
  const auto swap = context.channels("group.swap", "job");
  if (swap.empty()) return false;
  const auto series = context.telemetry.series(swap.front());
  return std::any_of(series.begin(), series.end(), [](double bytes) { return bytes > 0; });
}

/// Pages are counted for the whole node: if the job had none in swap and did not wait, other programs read them.
bool is_of_others(const RuleContext& context, const Waiting& waiting) {
  return waiting.signal && waiting.signal->metric.starts_with("cgroup.") && !job_has_swap(context) &&
         more_than_usual(waiting) < context.threshold("min_wait");
}

void set_cost(const RuleContext& context, Finding& finding, const Waiting& waiting, double length) {
  if (!waiting.signal || std::isnan(waiting.inside)) {
    return set_loss(context, finding, std::nullopt, "not known: waiting for memory was not measured");
  }
  const bool own = waiting.signal->metric.starts_with("cgroup.");
  const bool of_others = is_of_others(context, waiting);
  set_most_loss(
      context, finding, of_others ? 0 : more_than_usual(waiting) * length,
      fmt::format("some task of the {} waited for memory {} % of this time{}", own ? "job" : "node",
                  number(100 * waiting.inside),
                  std::isnan(waiting.usual) ? "" : fmt::format(" (usually {} %)", number(100 * waiting.usual))));
  if (of_others) finding.severity = Severity::notice;
  finding.confidence = own ? Confidence::likely : Confidence::possible;
}

/// The memory that the job would have needed to keep all of it: the most that it had in memory and in swap at one time,
/// and a fifth more.
JobValues values_of(const RuleContext& context) {
  constexpr double kReserve = 1.2;
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  const auto memory = context.channels("group.memory", "job");
  const auto swap = context.channels("group.swap", "job");
  if (memory.empty() || swap.empty() || context.telemetry.channels[memory.front()].role == "node") return {};
  const auto in_memory = context.telemetry.series(memory.front());
  const auto in_swap = context.telemetry.series(swap.front());
  double most = kNaN;
  for (std::size_t t = 0; t < in_memory.size(); ++t) most = std::fmax(most, in_memory[t] + in_swap[t]);
  if (std::isnan(most)) return {};
  return {{"memory_more", slurm_memory(std::ceil(kReserve * most / kGiB) * kGiB)},
          {"memory_used", quantity(most, "bytes")}};
}

Finding describe(const RuleContext& context, const MetricSeries& in, const Excursion& excursion,
                 std::span<const Interval> all) {
  const Waiting waiting = waiting_in(context, excursion.at, all);
  const bool of_others = is_of_others(context, waiting);
  Finding finding = finding_at(context, excursion.at, of_others ? JobValues{} : values_of(context));
  const double length = context.seconds(excursion.at.length());
  set_cost(context, finding, waiting, length);
  finding.evidence.push_back(evidence_of(context, in, excursion));
  add_contrast(context, finding, rate(context, "vmstat.pswpout", context.page_bytes(), "bytes/s"), excursion.at, all);
  if (waiting.signal && !std::isnan(waiting.inside)) {
    finding.evidence.push_back(
        evidence_of(context, *waiting.signal, InsideOutside{waiting.inside, waiting.usual, 0}, excursion.at));
    if (std::isnan(waiting.usual)) finding.evidence.back().expected.reset();
  }
  finding.sentence =
      fmt::format("{} were read back from swap on {} in {} ({}{}){}.", quantity(excursion.inside * length, "bytes"),
                  context.telemetry.node, duration(length), quantity(excursion.inside, "bytes/s"),
                  std::isnan(excursion.outside) ? "" : ", usually " + quantity(excursion.outside, "bytes/s"),
                  of_others ? "; the job had nothing in swap, and hardly waited for memory" : "");
  finding.runner_up = {"mem.leak_oom_risk", "a leak: its memory would only grow, and here pages were read back"};
  return finding;
}

/// A job that swaps from its first second to its last has no baseline to compare with.
std::vector<Excursion> intervals(const RuleContext& context, const MetricSeries& in) {
  const double least = context.threshold("min_rate") * 1e6;
  auto found = excursions_of(context, in.values, least, context.threshold(kMinScore.name));
  std::erase_if(found, [](const Excursion& excursion) { return excursion.recurring; });
  return or_whole_run(context, in.values, least, std::move(found));
}

std::vector<Finding> check(const RuleContext& context) {
  const MetricSeries in = needed(rate(context, "vmstat.pswpin", context.page_bytes(), "bytes/s"), "vmstat.pswpin");
  const auto found = intervals(context, in);
  const std::vector<Interval> all = places(found);
  std::vector<Finding> findings;
  findings.reserve(found.size());
  for (const Excursion& excursion : found) findings.push_back(describe(context, in, excursion, all));
  return findings;
}

const RegisteredRule kRule{{
    .id = "mem.swap_activity",
    .title = "Memory of programs was read back from swap",
    .looks_for =
        "Intervals in which pages are read from swap (vmstat.pswpin), and whether the job itself waited for memory "
        "(cgroup.memory_some, else pressure.memory_some). Pages that are only written to swap are not needed.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::memory,
    .order = 30,
    .look_alikes = "mem.leak_oom_risk",
    .proof = Proof::real,
    .whole_machine = true,
    .thresholds = {{"min_rate", 0.4, "MB/s", "least rate of pages read from swap"},
                   {"min_seconds", 5, "s", "shortest interval"},
                   {"min_wait", 0.01, "s/s",
                    "least waiting of the job itself for memory; below, the pages are of others"},
                   kMinScore,
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {{"#SBATCH --mem={memory_more}   # the most that the job had in memory and swap, plus 20 %", "job"},
                    "for p in $(pgrep -u \"$USER\" -x {process}); do grep -HE 'VmRSS|VmSwap' /proc/$p/status; done   # "
                    "on {node}, in "
                    "the next run: how much of its memory is in swap"},
    .advice = {{"Ask for more than {memory_used} of memory: the job had so much in memory and in swap at one time.",
                "memory_used"},
               {"Ask for as much memory as the job uses.", "!memory_used"},
               "Or use less memory at once: smaller batches, fewer workers."},
    .admin_remedy =
        {{"cgroup.conf: ConstrainSwapSpace=yes AllowedSwapSpace=0", "job"},
         "sysctl vm.swappiness=1   # on {node}: the kernel then drops cached files before it swaps programs"},
    .verify = "pswpin in /proc/vmstat does not grow while the job runs",
    .sources = {"https://docs.kernel.org/accounting/psi.html", "https://slurm.schedmd.com/cgroup.conf.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::mem_swap
