// The kernel killed processes of the job because its control group, or the node, had no memory left.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/event_count.h"
#include "postproc/diagnose/memory_signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::mem_oom_killed {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr std::string_view kOfGroups = "group.killed_for_memory";

double largest(const RuleContext& context, std::string_view metric, const std::string& instance) {
  double most = kNaN;
  for (const std::size_t channel : context.channels(metric, instance)) {
    for (const double value : context.telemetry.series(channel)) most = std::fmax(most, value);
  }
  return most;
}

/// A limit with a quarter more, in whole GiB or parts of one.
JobValues more_memory(const RuleContext& context, const std::string& group, double limit) {
  constexpr double kLarge = 4 * kGiB;
  if (!(limit > 0)) return {};
  if (group != "job") return {{"memory_group", group}, {"memory_limit", slurm_memory(limit)}};
  const double step = limit >= kLarge ? kGiB : kGiB / 16;
  const double more = std::ceil(limit * 1.25 / step) * step;
  if (!fits_on_node(context, more)) return {{"memory_limit", slurm_memory(limit)}};
  return {{"memory_more", slurm_memory(more)}, {"memory_limit", slurm_memory(limit)}};
}

/// The most that a process had in the interval in which it was killed, or shortly before. The slot may have been that
/// of another process earlier.
double last_memory_of(const RuleContext& context, const std::string& slot, Interval at) {
  constexpr double kOldestSeconds = 3;
  const std::size_t begin = at.begin - std::min(at.begin, context.steps(kOldestSeconds));
  double last = kNaN;
  for (const std::size_t channel : context.channels("process.rss", slot)) {
    const auto series = context.telemetry.series(channel);
    for (std::size_t t = begin; t < std::min(at.end, series.size()); ++t) {
      if (!std::isnan(series[t])) last = t <= at.begin ? series[t] : std::fmax(last, series[t]);
    }
  }
  return last;
}

/// " At that time, python3 (rank3) ended, probably the killed process; it was last seen with 2 GiB resident, ..." If
/// several ended, the killed one is unknown; one that the node's counter shows may be of another job.
std::string who_ended(const RuleContext& context, const EventCount& count, double killed) {
  constexpr double kSeenLateSeconds = 2;
  const TimeSpan span = context.span(count.at.begin, count.at.end);
  std::string slot;
  for (const Event& event : context.events) {
    if (event.code != "process_end" || !context.happened_in(event, span, kSeenLateSeconds)) continue;
    if (!slot.empty() || killed != 1) return "";
    slot = event.text;
  }
  if (slot.empty()) return "";
  const double held = last_memory_of(context, slot, count.at);
  const bool is_of_job = context.telemetry.channels[count.channel].metric == kOfGroups;
  return fmt::format(
      " At that time, {} ended{}{}.", context.rank_name(slot), is_of_job ? ", probably the killed process" : "",
      std::isnan(held) ? ""
                       : "; it was last seen with " + quantity(held, "bytes") + " resident, with shared libraries");
}

std::string limit_in_words(const std::string& group, double limit, double peak) {
  constexpr double kReached = 0.95;
  if (std::isnan(limit)) return "no limit of its control group was measured";
  if (peak >= kReached * limit) return fmt::format("its limit of {} was reached", quantity(limit, "bytes"));
  return fmt::format("its control group ({}) has a limit of {}, of which {} was seen in use", group,
                     quantity(limit, "bytes"), std::isnan(peak) ? "an unknown part" : quantity(peak, "bytes"));
}

Finding describe(const RuleContext& context, const EventCount& count, const std::string& where,
                 const JobValues& values) {
  const double killed = std::round(count.total);  // an increase may be shared out between steps of the grid
  Finding finding = context.finding(values);
  finding.intervals = {context.span(count.at.begin, count.at.end)};
  finding.severity = Severity::critical;
  finding.impact.how = "not known: the work of the killed processes was not measured";
  finding.evidence.push_back(evidence_of(context, count));
  finding.sentence = fmt::format("The kernel killed {} for memory on {}, {} after the recording began: {}.{}",
                                 killed == 1 ? "1 process" : number(killed) + " processes", context.telemetry.node,
                                 duration(context.seconds(count.at.begin)), where, who_ended(context, count, killed));
  return finding;
}

/// A group also counts kills in the groups below it: the smallest one that counted them all had the limit.
std::vector<Finding> of_groups(const RuleContext& context) {
  const auto counts = counted_events(context, kOfGroups);
  if (counts.empty()) return {};
  const EventCount* tightest = nullptr;
  double limit = kNaN;
  for (const EventCount& count : counts) {
    if (count.total < counts.front().total) break;
    const double its = largest(context, "group.memory_limit", context.telemetry.channels[count.channel].instance);
    if (tightest != nullptr && !(its < limit)) continue;
    tightest = &count;
    if (!std::isnan(its)) limit = its;
  }
  const std::string& group = context.telemetry.channels[tightest->channel].instance;
  const double peak = std::fmax(largest(context, "group.memory_peak", group), largest(context, "group.memory", group));
  Finding finding =
      describe(context, *tightest, limit_in_words(group, limit, peak), more_memory(context, group, limit));
  finding.instances = {group};
  finding.confidence = Confidence::certain;
  finding.runner_up = {"mem.leak_oom_risk",
                       "why so much memory was used is not known; a leak is looked for by its own rule"};
  return {finding};
}

std::vector<Finding> check(const RuleContext& context) {
  if (!context.channels(kOfGroups).empty()) return of_groups(context);
  const auto counts = counted_events(context, "vmstat.oom_kill");
  if (counts.empty()) return {};
  Finding finding = describe(context, counts.front(),
                             "the count covers the whole node, so the killed processes may belong to others", {});
  finding.severity = Severity::notice;
  finding.confidence = Confidence::possible;
  finding.runner_up = {"", "a process outside the job: the node's counter does not show whose process it was"};
  return {finding};
}

const RegisteredRule kRule{{
    .id = "mem.oom_killed",
    .title = "The kernel killed processes for memory",
    .looks_for = "Processes killed for memory in the job's control groups (group.killed_for_memory), else on the node "
                 "(vmstat.oom_kill).",
    .kind = FindingKind::audit,
    .states = Stated::fact,
    .subsystem = Subsystem::memory,
    .order = 10,
    .look_alikes = "mem.leak_oom_risk",
    .proof = Proof::real,
    .user_remedy =
        {{"#SBATCH --mem={memory_more}   # of each node: at least a quarter more than the limit of {memory_limit}; the "
          "need was not measured; in place of --mem-per-cpu or --mem-per-gpu",
          "job"}},
    .advice =
        {{"Raise the memory limit where it was set for the job, for example to {memory_more}: at least a quarter more "
          "than {memory_limit}. The need was not measured.",
          "!job"},
         {"The limit of {memory_limit} is that of {memory_group}, not of the whole job: raise the --mem of that "
          "srun, or the limit of the container.",
          "memory_group"},
         {"Ask for more memory, or use less at once: smaller batches, fewer workers, fewer processes on each node.",
          "!memory_more"},
         {"Use less memory at once: smaller batches, fewer workers, fewer processes on each node.", "memory_more", kOr},
         {"Where numactl --membind binds the job, use --preferred: the kernel otherwise kills processes when that NUMA "
          "node is full, although the machine has free memory.",
          "!memory_limit", kOr}},
    .admin_remedy = {{"cgroup.conf: ConstrainRAMSpace=yes   # a job that uses too much memory ends itself, not its "
                      "neighbours",
                      "job,!memory_limit"}},
    .verify = {.expected = "the kernel kills no process for memory"},
    .sources = {"https://docs.kernel.org/admin-guide/cgroup-v2.html#memory"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::mem_oom_killed
