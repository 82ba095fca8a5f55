// Memory that a process of the job took and never gave back, steadily: the outer sign of a leak. Judged by the retained
// memory, the least the process held from each moment on, so that buffers that come and go count nothing; and without
// pages of mapped files, which the kernel drops when it needs the memory.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::mem_leak {
namespace {

/// Memory that ends with the job is no leak.
constexpr double kTearDownSeconds = 2.5;
/// Retained memory per second of the job, from these many seconds each.
constexpr std::size_t kMostBins = 600;

struct Retained {
  std::string metric;
  std::string instance;
  std::size_t bin = 1;          // grid steps
  std::vector<double> level;    // bytes per bin, never falling
  std::vector<double> passing;  // beyond that, and given back later
};

/// Means per bin, then the least of all later ones.
Retained retained(const Channel& channel, std::span<const double> resident, std::size_t bin, std::size_t samples) {
  Retained memory{channel.metric, channel.instance, bin, {}, {}};
  for (std::size_t begin = 0; begin + bin <= samples; begin += bin) {
    memory.level.push_back(mean_inside(resident, {begin, begin + bin}));
  }
  memory.passing = memory.level;
  double least = kNaN;
  for (std::size_t i = memory.level.size(); i-- > 0;) {
    if (!std::isnan(memory.level[i])) least = std::isnan(least) ? memory.level[i] : std::min(least, memory.level[i]);
    memory.level[i] = least;
    memory.passing[i] -= least;
  }
  return memory;
}

struct Ramp {
  std::size_t begin = 0;  // bins
  std::size_t end = 0;
  double growth = 0;  // bytes
};

/// The interval in which most of the growth happened at the pace of the whole of it: largest sum of the growth above
/// half of the pace, as for a box of half height.
Ramp steepest(const std::vector<double>& level, std::size_t first) {
  Ramp best;
  if (level.size() < first + 3) return best;
  const double total = level.back() - level[first];
  if (!(total > 0)) return best;
  double pace = total / static_cast<double>(level.size() - 1 - first);
  for (int refinement = 0; refinement < 6; ++refinement) {
    double running = 0;
    double largest = 0;
    std::size_t begin = first;
    Ramp next;
    for (std::size_t i = first; i + 1 < level.size(); ++i) {
      if (running <= 0) {
        running = 0;
        begin = i;
      }
      running += level[i + 1] - level[i] - pace / 2;
      if (running > largest) {
        largest = running;
        next = {begin, i + 1, level[i + 1] - level[begin]};
      }
    }
    if (next.end <= next.begin) break;
    const bool same = next.begin == best.begin && next.end == best.end;
    best = next;
    if (same) break;
    pace = best.growth / static_cast<double>(best.end - best.begin);
  }
  return best;
}

/// A single allocation is a step, not a ramp: every third of it must have done its part.
bool is_steady(const std::vector<double>& level, const Ramp& ramp, double least_share) {
  const std::size_t length = ramp.end - ramp.begin;
  if (length < 3) return false;
  for (std::size_t third = 0; third < 3; ++third) {
    const double part = level[ramp.begin + (third + 1) * length / 3] - level[ramp.begin + third * length / 3];
    if (part < least_share * ramp.growth) return false;
  }
  return true;
}

/// Memory that grew as much before and was freed will be freed again: the job ended in the middle of it.
bool came_before(const Retained& memory, const Ramp& ramp, std::size_t first) {
  constexpr double kAlike = 0.7;
  double largest = 0;
  for (std::size_t i = first; i < ramp.begin; ++i) {
    if (!std::isnan(memory.passing[i])) largest = std::max(largest, memory.passing[i]);
  }
  return largest > kAlike * ramp.growth;
}

/// Memory that a program may still get, and from which place.
struct Room {
  double left = 0;         // bytes
  std::string group = {};  // control group with a limit; "": the node
  double limit = 0;
};

/// Page cache of the job, which the kernel drops before it kills at a limit; NaN where it was not measured: then it is
/// not known how much a limit leaves.
double droppable(const RuleContext& context, Interval at) {
  const auto files = level(context, "cgroup.memory_file", "bytes");
  const auto shared = level(context, "memory_stat.shmem", "bytes");
  if (!files) return kNaN;
  const double cache = mean_inside(files->values, at) - (shared ? mean_inside(shared->values, at) : 0);
  return std::isnan(cache) ? kNaN : std::max(0.0, cache);
}

/// The least of what is left on the node and below the limit of each control group around the job.
std::optional<Room> tightest(const RuleContext& context, Interval at) {
  std::optional<Room> least;
  if (const auto available = level(context, "mem.available", "bytes")) {
    const double left = mean_inside(available->values, at);
    if (!std::isnan(left)) least = Room{left};
  }
  const double cache = droppable(context, at);
  for (const std::size_t channel : context.channels("group.memory_limit")) {
    const std::string& group = context.telemetry.channels[channel].instance;
    const auto used = context.channels("group.memory", group);
    if (used.empty()) continue;
    const double limit = mean_inside(context.telemetry.series(channel), at);
    const double left = limit - mean_inside(context.telemetry.series(used.front()), at) + cache;
    if (!std::isnan(left) && (!least || left < least->left)) least = Room{std::max(0.0, left), group, limit};
  }
  return least;
}

/// Growth that has stopped may be data that were read and are kept.
bool lasts_to_the_end(const Retained& memory, const Ramp& ramp) {
  return ramp.end + 2 >= memory.level.size();
}

/// The room that was left at the end.
std::optional<Room> room_at_end(const RuleContext& context) {
  const std::size_t samples = context.telemetry.samples;
  return tightest(context, {samples - std::min(samples, context.steps(5)), samples});
}

std::string outlook_of(const Room& room, double seconds) {
  if (room.group.empty()) return "at that rate the node's memory would have lasted another " + duration(seconds);
  return fmt::format(
      "at that rate the limit of {} of {} would have been reached after another {}", quantity(room.limit, "bytes"),
      room.group == "job" ? "the job's control group" : "control group " + room.group, duration(seconds));
}

/// A series of process.rss that was not split by the kind of memory: mapped files are in it, and the control group must
/// show that it was not these that grew.
bool grew_in_group(const RuleContext& context, const Ramp& ramp, std::size_t bin) {
  constexpr double kMost = 0.5;
  const auto anonymous = level(context, "cgroup.memory_anon", "bytes");
  if (!anonymous) return true;
  const double before = mean_inside(anonymous->values, {ramp.begin * bin, (ramp.begin + 1) * bin});
  const double after = mean_inside(anonymous->values, {(ramp.end - 1) * bin, ramp.end * bin});
  return !(after - before < kMost * ramp.growth);
}

/// A process whose memory grew.
struct Growing {
  Retained memory;
  Ramp ramp;

  [[nodiscard]] Interval at() const { return {ramp.begin * memory.bin, ramp.end * memory.bin}; }
  /// Bytes per second.
  [[nodiscard]] double pace(const RuleContext& context) const { return ramp.growth / context.seconds(at().length()); }
};

/// The pace at which the job as a whole takes the room that is left: ranks leak side by side. That of its control
/// group, where it is higher: not every rank is measured.
double pace_of_job(const RuleContext& context, const Growing& one, std::span<const Growing> all) {
  double together = 0;
  for (const Growing& each : all) {
    if (lasts_to_the_end(each.memory, each.ramp)) together += each.pace(context);
  }
  const auto anonymous = level(context, "cgroup.memory_anon", "bytes");
  if (!anonymous) return together;
  const Interval at = one.at();
  const double before = mean_inside(anonymous->values, {at.begin, at.begin + one.memory.bin});
  const double after = mean_inside(anonymous->values, {at.end - one.memory.bin, at.end});
  return std::fmax(together, (after - before) / context.seconds(at.length() - one.memory.bin));
}

/// Backward passes were seen.
bool trains(const RuleContext& context) {
  const auto steps = context.channels("stack.step_time");
  return std::any_of(steps.begin(), steps.end(), [&](std::size_t channel) {
    return !std::isnan(mean_inside(context.telemetry.series(channel), {0, context.telemetry.samples}));
  });
}

Finding describe(const RuleContext& context, const Growing& growing, std::span<const Growing> all) {
  constexpr double kAlone = 1.1;
  const auto& [memory, ramp] = growing;
  const Interval at = growing.at();
  Finding finding = finding_at(context, at, trains(context) ? JobValues{{"trains", "yes"}} : JobValues{});
  const double length = context.seconds(at.length());
  const double before = memory.level[ramp.begin];
  const double after = memory.level[ramp.end];
  const double pace = growing.pace(context);
  const std::string who = context.rank_name(memory.instance);
  if (who == memory.instance) finding.instances = {who};
  finding.severity = Severity::notice;
  finding.confidence = Confidence::possible;
  const auto room = lasts_to_the_end(memory, ramp) ? room_at_end(context) : std::nullopt;
  finding.impact.how = "none seen: the memory was available";
  std::string outlook = "the memory was not freed";
  if (room && pace > 0) {
    const double of_job = pace_of_job(context, growing, all);
    const double left = room->left / of_job;
    outlook = outlook_of(*room, left);
    if (of_job > kAlone * pace)
      outlook = fmt::format("the job grew at {} in all; {}", quantity(of_job, "bytes/s"), outlook);
    finding.impact.how = "none seen while it ran: the memory was available";
    if (left < context.threshold("soon") * job_seconds(context)) {
      finding.severity = Severity::warning;
      finding.confidence = Confidence::likely;
    }
  }
  const double outside =
      (memory.level.back() - memory.level.front() - ramp.growth) / std::max(1.0, job_seconds(context) - length);
  const Evidence held{.metric = memory.metric,
                      .instance = memory.instance,
                      .node = context.telemetry.node,
                      .feature = "least later value; expected: the value before the growth",
                      .observed = after,
                      .expected = before,
                      .unit = "bytes",
                      .span = finding.intervals.front(),
                      .detectors = {Method::interval_search}};
  Evidence retained_per_second = held;
  retained_per_second.feature = "growth of the memory that is never freed; expected: its growth at other times";
  retained_per_second.observed = pace;
  retained_per_second.expected = std::max(0.0, outside);
  retained_per_second.unit = "bytes/s";
  finding.evidence = {held, std::move(retained_per_second)};
  if (room && !room->group.empty()) {
    finding.evidence.push_back(
        fact(context, "group.memory_limit", room->group, "value", room->limit, std::nullopt, "bytes"));
  }
  finding.sentence =
      fmt::format("Memory of {} on {} grew by {} in {} s, at {}, from {} to {}; {}.", who, context.telemetry.node,
                  quantity(ramp.growth, "bytes"), number(length), quantity(pace, "bytes/s"), quantity(before, "bytes"),
                  quantity(after, "bytes"), outlook);
  finding.runner_up = {"", fmt::format("the program's start: the growth began {} s later, and no memory was freed",
                                       number(context.seconds(at.begin)))};
  return finding;
}

/// Memory of each rank without mapped files, where it was measured; else all of it. Slots of others change their
/// process.
std::vector<std::size_t> memory_of_ranks(const RuleContext& context) {
  std::vector<std::size_t> all = context.channels("process.rss");
  if (all.empty()) throw Unavailable("not measured: process.rss");
  std::erase_if(all, [&](std::size_t channel) { return context.telemetry.channels[channel].role != "rank"; });
  for (std::size_t& channel : all) {
    const auto anonymous = context.channels("process.rss_anon", context.telemetry.channels[channel].instance);
    const bool split = !anonymous.empty() && !std::isnan(mean_inside(context.telemetry.series(anonymous.front()),
                                                                     {0, context.telemetry.samples}));
    if (split) channel = anonymous.front();
  }
  return all;
}

std::vector<Finding> check(const RuleContext& context) {
  const std::size_t samples =
      context.telemetry.samples - std::min(context.telemetry.samples, context.steps(kTearDownSeconds));
  const std::size_t bin = std::max(context.steps(1), samples / kMostBins);
  const auto first = static_cast<std::size_t>(
      std::ceil(static_cast<double>(context.steps(context.threshold("warmup_seconds"))) / static_cast<double>(bin)));
  const double shortest = context.threshold("min_seconds");
  std::vector<Growing> growing;
  for (const std::size_t channel : memory_of_ranks(context)) {
    const Retained memory =
        retained(context.telemetry.channels[channel], context.telemetry.series(channel), bin, samples);
    const Ramp ramp = steepest(memory.level, first);
    if (context.seconds((ramp.end - ramp.begin) * bin) < shortest) continue;
    if (ramp.growth < context.threshold("min_growth") * 1e6) continue;
    if (ramp.growth < context.threshold("min_share") * memory.level[ramp.begin]) continue;
    if (!is_steady(memory.level, ramp, context.threshold("min_third")) || came_before(memory, ramp, first)) continue;
    if (memory.metric == "process.rss" && !grew_in_group(context, ramp, bin)) continue;
    growing.push_back({memory, ramp});
  }
  std::vector<Finding> findings;
  findings.reserve(growing.size());
  for (const Growing& one : growing) findings.push_back(describe(context, one, growing));
  return findings;
}

const RegisteredRule kRule{{
    .id = "mem.leak_oom_risk",
    .title = "Memory of the job grew and was not freed",
    .looks_for = "A process whose memory without mapped files (process.rss_anon, else process.rss with "
                 "cgroup.memory_anon) grows throughout a part of the run and is never freed, compared with the memory "
                 "that is left on the node (mem.available) and below the limits of the job's control groups "
                 "(group.memory_limit).",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::memory,
    .order = 55,
    .look_alikes = "the program's start,a single allocation,buffers that come and go,mapped files",
    .proof = Proof::real,
    .forecast = true,
    .thresholds = {{"min_growth", 200, "MB", "least growth of memory"},
                   {"min_share", 0.2, "ratio", "least growth relative to the process's memory before"},
                   {"min_seconds", 6, "s", "shortest time of growth"},
                   {"warmup_seconds", 10, "s", "growth that began earlier belongs to the program's start"},
                   {"min_third", 0.15, "ratio",
                    "least part of the growth in each third of that time; below, it is a step"},
                   {"soon", 10, "run times",
                    "longest time until the memory is full for which this is a finding, in run times of the job"}},
    .user_remedy = {{"export PYTHONTRACEMALLOC=10   # then compare tracemalloc.take_snapshot() of two moments",
                     "python"},
                    {"heaptrack   # names the lines that allocated it", "binary"}},
    .advice = {{"Keep loss.item() instead of loss in lists and logs: a kept tensor keeps its graph.", "trains"},
               {"Use arrays instead of lists of objects in data sets, and persistent workers.", "trains", kOr},
               {"Look for lists, caches and tensors that grow with each request or batch. Keep the values of a tensor "
                "(.detach().cpu()), not the tensor.",
                "torch,!trains"}},
    .admin_remedy = {{"cgroup.conf: ConstrainRAMSpace=yes   # the leak then ends only its own job", "job"}},
    .verify = {.expected = "process.rss_anon of the named process does not grow after its start"},
    .sources = {"https://docs.kernel.org/admin-guide/cgroup-v2.html#memory",
                "https://docs.python.org/3/library/tracemalloc.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::mem_leak
