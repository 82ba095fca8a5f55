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
  Waiting waiting{pressure_wait(context, Pressure::memory_some)};
  if (!waiting.signal) return waiting;
  waiting.inside = mean_inside(waiting.signal->values, at);
  if (const auto change = inside_outside(context, waiting.signal, at, all)) waiting.usual = change->outside;
  return waiting;
}

double more_than_usual(const Waiting& waiting) {
  return std::isnan(waiting.usual) ? waiting.inside : std::max(0.0, waiting.inside - waiting.usual);
}

bool counts_swap(const RuleContext& context) {
  const auto swap = context.channels("group.swap", "job");
  return !swap.empty() &&
         !std::isnan(mean_inside(context.telemetry.series(swap.front()), {0, context.telemetry.samples}));
}

bool job_has_swap(const RuleContext& context) {
  const auto swap = context.channels("group.swap", "job");
  if (swap.empty()) return false;
  const auto series = context.telemetry.series(swap.front());
  return std::any_of(series.begin(), series.end(), [](double bytes) { return bytes > 0; });
}

/// Pages are counted for the whole node: if the job had none in swap, other programs read them, unless the job waited.
/// Where pressure stall information is off, as on RHEL 9, that is not counted.
bool is_of_others(const RuleContext& context, const Waiting& waiting) {
  if (job_has_swap(context)) return false;
  const bool own = waiting.signal && waiting.signal->metric.starts_with("cgroup.");
  return own ? more_than_usual(waiting) < context.threshold("min_wait") : counts_swap(context);
}

std::string words_about_others(const RuleContext& context, const Waiting& waiting) {
  if (!waiting.signal || !waiting.signal->metric.starts_with("cgroup.")) return "; the job had nothing in swap";
  return counts_swap(context) ? "; the job had nothing in swap, and hardly waited for memory"
                              : "; the job hardly waited for memory, and its swap was not measured";
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

double largest(std::span<const double> values) {
  double most = kNaN;
  for (const double value : values) most = std::fmax(most, value);
  return most;
}

/// one + sign * other, as long as both are.
std::vector<double> sum_of_levels(std::span<const double> one, std::span<const double> other, double sign = 1) {
  std::vector<double> sum;
  for (std::size_t t = 0; t < std::min(one.size(), other.size()); ++t) sum.push_back(one[t] + sign * other[t]);
  return sum;
}

/// Empty where it was not measured.
std::span<const double> level_of(const RuleContext& context, std::string_view metric, std::string_view instance = {}) {
  const auto channels = context.channels(metric, instance);
  return channels.empty() ? std::span<const double>() : context.telemetry.series(channels.front());
}

/// The memory that the job would have needed to keep all of it: the most that it had in memory and in swap at one time,
/// and a fifth more. Where its swap is not counted, the most in memory: it needs more than that.
JobValues values_of(const RuleContext& context) {
  constexpr double kReserve = 1.2;
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  const auto memory = level_of_job(context, "group.memory");
  const double all = largest(sum_of_levels(memory, level_of_job(context, "group.swap")));
  if (!std::isnan(all)) {
    if (!fits_on_node(context, all)) return {{"too_large", "yes"}};
    JobValues values{{"memory_used", slurm_memory(all)}};
    const double more = std::ceil(kReserve * all / kGiB) * kGiB;
    if (fits_on_node(context, more)) values["memory_more"] = slurm_memory(more);
    return values;
  }
  const double resident = largest(memory);
  if (std::isnan(resident)) return {};
  JobValues values{{"memory_resident", slurm_memory(resident)}};
  const double least = std::ceil(kReserve * resident / kGiB) * kGiB;
  if (fits_on_node(context, least)) values["memory_least"] = slurm_memory(least);
  return values;
}

/// "; up to 124 MiB of the job's memory were in swap at one time", or of the node's where the job's is not counted.
std::string most_in_swap(const RuleContext& context) {
  const double of_job = largest(level_of_job(context, "group.swap"));
  const bool counted = of_job > 0;
  const double of_node =
      largest(sum_of_levels(level_of(context, "mem.swap_total"), level_of(context, "mem.swap_free"), -1));
  const double most = counted ? of_job : of_node;
  if (!(most > 0)) return "";
  return fmt::format("; up to {} of the {} memory were in swap at one time", quantity(most, "bytes"),
                     counted ? "job's" : "node's");
}

/// "; the job's memory limit of 122 MiB was reached": the reason for swapping on a node that has free memory.
std::string limit_words(const RuleContext& context, Interval at) {
  const auto limit = limit_met(context, at);
  if (!limit) return "";
  const std::string bytes = quantity(limit->bytes, "bytes");
  return limit->group == "job"
             ? fmt::format("; the job's memory limit of {} was reached", bytes)
             : fmt::format("; the memory limit of {} was reached (control group {})", bytes, limit->group);
}

Finding describe(const RuleContext& context, const MetricSeries& in, const Excursion& excursion,
                 std::span<const Interval> all) {
  const Waiting waiting = waiting_in(context, excursion.at, all);
  const bool of_others = is_of_others(context, waiting);
  Finding finding = finding_at(context, excursion.at, of_others ? JobValues{{"others", ""}} : values_of(context));
  const double length = context.seconds(excursion.at.length());
  set_cost(context, finding, waiting, length);
  finding.evidence.push_back(evidence_of(context, in, excursion));
  add_contrast(context, finding, rate(context, "vmstat.pswpout", context.page_bytes(), "bytes/s"), excursion.at, all);
  if (waiting.signal && !std::isnan(waiting.inside)) {
    finding.evidence.push_back(
        evidence_of(context, *waiting.signal, InsideOutside{waiting.inside, waiting.usual, 0}, excursion.at));
    if (std::isnan(waiting.usual)) finding.evidence.back().expected.reset();
  }
  finding.sentence = fmt::format(
      "{} were read back from swap on {} in {} ({}{}){}.", quantity(excursion.inside * length, "bytes"),
      context.telemetry.node, duration(length), quantity(excursion.inside, "bytes/s"),
      std::isnan(excursion.outside) ? "" : ", usually " + quantity(excursion.outside, "bytes/s"),
      of_others ? words_about_others(context, waiting) : most_in_swap(context) + limit_words(context, excursion.at));
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
    .user_remedy =
        {{"#SBATCH --mem={memory_more}   # the most that the job had in memory and swap, plus 20 %; in "
          "place of --mem-per-cpu or --mem-per-gpu",
          "job"},
         {"#SBATCH --mem={memory_least}   # at least: the most that the job had in memory, plus 20 %; its part "
          "in swap was not measured; in place of --mem-per-cpu or --mem-per-gpu",
          "job"},
         "for p in $(pgrep -u \"$USER\" -x {process}); do grep -HE 'VmRSS|VmSwap' /proc/$p/status; done   # "
         "on {node}, in "
         "the next run: how much of its memory is in swap"},
    .advice = {{"Ask for more than {memory_used} of memory: the job had so much in memory and in swap at one time.",
                "memory_used"},
               {"Ask for more than {memory_resident} of memory: the job had so much in memory at one time. Its part in "
                "swap was not measured.",
                "memory_resident"},
               {"Ask for as much memory as the job uses.", "others"},
               {"Ask for as much memory as the job uses: that was not measured.",
                "!memory_used,!memory_resident,!others,!too_large"},
               {"The job needs more memory than {node} has: use more nodes, or nodes with more memory.", "too_large"},
               {"Use less memory at once: smaller batches, fewer workers.", kOr}},
    .admin_remedy =
        {{"cgroup.conf: ConstrainSwapSpace=yes", "job"},
         {"cgroup.conf: AllowedSwapSpace=0   # a job that needs more memory is then killed instead of slowed down",
          "job"},
         {"sysctl vm.swappiness=1   # changes {node} until its next boot: the kernel then drops cached files before it "
          "swaps programs",
          kOr}},
    .verify = {.command = "grep pswpin /proc/vmstat",
               .where = "on the node, twice while the next run works",
               .expected = "nearly the same number"},
    .sources = {"https://docs.kernel.org/accounting/psi.html", "https://slurm.schedmd.com/cgroup.conf.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::mem_swap
