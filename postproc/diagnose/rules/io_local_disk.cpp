// A disk of the node that had more to do than it can: busy all the time, and each request takes many times as long as
// usual, because it waits for those before it. A disk that serves many requests at once is busy long before it is full:
// so the rule also needs the time of the requests.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::io_local_disk {
namespace {

struct Disk {
  std::string name;
  MetricSeries busy;    // part of the time
  MetricSeries bytes;   // moved per second
  MetricSeries counts;  // requests per second
  MetricSeries times;   // that these took, seconds per second
};

/// NaN where one of them is not measured.
std::optional<MetricSeries> sum_of(const RuleContext& context, const std::string& disk,
                                   const std::array<std::string_view, 2>& metrics, double scale,
                                   std::string_view unit) {
  std::optional<MetricSeries> sum;
  for (const std::string_view metric : metrics) {
    const auto channels = context.channels(metric, disk);
    if (channels.empty()) return std::nullopt;
    const MetricSeries more = channel_rate(context, channels.front(), scale, unit);
    if (!sum) {
      sum = more;
      continue;
    }
    for (std::size_t t = 0; t < more.values.size(); ++t) sum->values[t] += more.values[t];
  }
  return sum;
}

std::vector<Disk> disks_of(const RuleContext& context) {
  std::vector<Disk> disks;
  for (const std::size_t channel : context.channels("disk.io_time")) {
    const std::string& name = context.telemetry.channels[channel].instance;
    auto bytes = sum_of(context, name, {"disk.read_bytes", "disk.write_bytes"}, 1, "bytes/s");
    auto counts = sum_of(context, name, {"disk.reads", "disk.writes"}, 1, "/s");
    auto times = sum_of(context, name, {"disk.read_time", "disk.write_time"}, 1e-9, "s/s");
    if (!bytes || !counts || !times) continue;
    disks.push_back(
        {name, channel_rate(context, channel, 1e-9, "s/s"), *std::move(bytes), *std::move(counts), *std::move(times)});
  }
  return disks;
}

/// Seconds that a request took, in one interval or outside of all; NaN where there was none.
double time_of_requests(const Disk& disk, Interval at) {
  const double requests = mean_inside(disk.counts.values, at);
  return requests > 0 ? mean_inside(disk.times.values, at) / requests : kNaN;
}
/// The search finds the middle of what it searches, means over a second: requests at the ends of an interval are no
/// usual ones, and where a disk usually has few requests, they would be most of these.
double usual_time_of_requests(const RuleContext& context, const Disk& disk, std::span<const Interval> excluded) {
  const std::size_t margin = context.steps(1);
  std::vector<Interval> wider;
  wider.reserve(excluded.size());
  for (const Interval& each : excluded) wider.push_back(widened(each, margin, context.telemetry.samples));
  const double requests = mean_outside(disk.counts.values, wider);
  return requests > 0 ? mean_outside(disk.times.values, wider) / requests : kNaN;
}

/// The time from which a request waited for others, where the disk's usual time is not known. A disk of unknown kind
/// counts as the slowest one.
double slow_without_usual(const RuleContext& context, const std::string& disk) {
  if (disk.starts_with("nvme")) return context.threshold("min_time");
  const bool flash = context.snapshot_value("disk." + disk + ".rotational") == "0";
  return context.threshold(flash ? "min_time_flash" : "min_time_rotating");
}

bool is_slow(const RuleContext& context, const std::string& disk, double took, double usual) {
  if (std::isnan(usual)) return took >= slow_without_usual(context, disk);
  return took >= context.threshold("min_time") && took >= context.threshold("min_ratio") * usual;
}

/// The job's own reads from and writes to storage; nothing where a part of them was not counted.
std::optional<MetricSeries> own_bytes(const RuleContext& context, Interval at) {
  struct Source {
    std::string_view read, written;
    bool has_all;
  };
  const Source sources[] = {
      {"cgroup.read_bytes", "cgroup.write_bytes", group_counts_cached_writes(context)},
      {"process.read_bytes", "process.write_bytes", measures_every_process(context, at)},
  };
  for (const Source& source : sources) {
    if (!source.has_all) continue;
    auto read = rate(context, source.read, 1, "bytes/s");
    const auto written = rate(context, source.written, 1, "bytes/s");
    if (!read || !written) continue;
    for (std::size_t t = 0; t < read->values.size(); ++t) read->values[t] += written->values[t];
    return read;
  }
  return std::nullopt;
}

/// The origin of most of the requests.
enum class Requester : std::uint8_t { job, others, unknown };

struct Saturation {
  Excursion excursion;
  double took = 0;   // seconds per request
  double usual = 0;  // the same outside; NaN for a whole run
  double moved = 0;  // bytes per second
  Requester requester = Requester::unknown;
  double own_share = kNaN;
  bool more = false;  // than the job usually moves
};

Saturation judged(const RuleContext& context, const Disk& disk, const Excursion& excursion,
                  std::span<const Interval> all) {
  Saturation seen{.excursion = excursion,
                  .took = time_of_requests(disk, excursion.at),
                  .usual = usual_time_of_requests(context, disk, all),
                  .moved = mean_inside(disk.bytes.values, excursion.at)};
  const auto own = own_bytes(context, excursion.at);
  const double mine = own ? mean_inside(own->values, excursion.at) : kNaN;
  if (std::isnan(mine) || !(seen.moved > 0)) return seen;
  seen.own_share = std::min(1.0, mine / seen.moved);
  seen.requester = seen.own_share >= context.threshold("min_own_share") ? Requester::job : Requester::others;
  const auto change = inside_outside(context, disk.bytes, excursion.at, all);
  seen.more = change && change->excess() > 0.25 * change->outside;
  return seen;
}

/// The job's loss: the time in which its cpus stood still. In a run without another part, all of the time in which
/// nothing could go on.
struct Loss {
  std::optional<double> share;
  std::string how;
  bool at_most = false;
};

/// Threads that wait for each other in a loop use their cpus while nothing is read for them.
Loss loss_of_bytes(const RuleContext& context, const Saturation& seen, std::span<const Interval> all) {
  if (seen.requester != Requester::others) return {};
  const auto moved = inside_outside(context, own_bytes(context, seen.excursion.at), seen.excursion.at, all);
  if (!moved || moved->outside < context.threshold("min_own_rate")) return {};
  if (moved->fall() < context.threshold("min_own_fall")) return {};
  return {moved->fall(),
          fmt::format("the job read and wrote {} instead of {} meanwhile", quantity(moved->inside, "bytes/s"),
                      quantity(moved->outside, "bytes/s")),
          true};
}

Loss loss_of(const RuleContext& context, const Saturation& seen, std::span<const Interval> all) {
  const Interval at = seen.excursion.at;
  if (at.length() == context.telemetry.samples) {
    const auto full = pressure_wait(context, Pressure::io_full);
    const double share = full ? mean_inside(full->values, at) : kNaN;
    if (!(share >= context.threshold("min_stalled"))) return {};
    return {share, fmt::format("all work waited for io {:.0f} % of the time", 100 * share)};
  }
  const auto some = pressure_wait(context, Pressure::io_some);
  if (some && !(mean_inside(some->values, at) >= context.threshold("min_waiting"))) return {};
  const auto used = inside_outside(context, rate(context, "job.cpu_time", 1e-9, "cpus"), at, all);
  if (!used || used->fall() < context.threshold("min_slowed")) return loss_of_bytes(context, seen, all);
  return {used->fall(),
          fmt::format("the job used {} instead of {} meanwhile", counted(used->inside, "cpu"), number(used->outside))};
}

/// Others kept the disk busy, and detectors saw it: without a note their interval would stay unexplained.
bool is_worth_a_note(const RuleContext& context, const Saturation& seen) {
  return seen.requester == Requester::others && confirmed_by(context.detection, seen.excursion.at);
}

std::string no_loss_words(const RuleContext& context, const Saturation& seen, std::span<const Interval> all) {
  const auto used = inside_outside(context, rate(context, "job.cpu_time", 1e-9, "cpus"), seen.excursion.at, all);
  if (!used) return "not known: no part of the run was without it, or the job's cpu time was not measured";
  return fmt::format("none seen: the job used {} (usually {})", counted(used->inside, "cpu"), number(used->outside));
}

std::string whose_words(const Saturation& seen) {
  switch (seen.requester) {
    case Requester::job:
      if (std::isnan(seen.usual)) return "the job's own";
      return seen.more ? "the job's own requests, more than usual" : "the job's own requests, no more than usual";
    case Requester::others:
      return fmt::format("{:.0f} % of it by processes outside the job", 100 * (1 - seen.own_share));
    case Requester::unknown:
      break;
  }
  return "the processes that caused it were not measured";
}

/// Loading data at the beginning is normal.
bool is_the_start(const RuleContext& context, const Saturation& seen) {
  const Interval at = seen.excursion.at;
  return seen.requester == Requester::job && seen.more && 2 * at.length() < context.telemetry.samples &&
         at.begin < context.steps(context.threshold("start_seconds"));
}

void set_severity(const RuleContext& context, Finding& finding, const Saturation& seen) {
  if (is_the_start(context, seen)) finding.severity = Severity::info;
  // A disturbance by the job itself matters only if it is a visible part of the run.
  if (seen.requester == Requester::job && seen.more &&
      finding.impact.percent.value_or(0) < context.threshold("min_own_percent")) {
    finding.severity = std::min(finding.severity, Severity::notice);
  }
}

Finding describe(const RuleContext& context, const Disk& disk, const Saturation& seen, const Loss& loss,
                 std::span<const Interval> all) {
  const Interval at = seen.excursion.at;
  const double length = context.seconds(at.length());
  JobValues values{{"disk", disk.name}};
  if (seen.requester == Requester::others) values["outsider"] = "yes";
  Finding finding = finding_at(context, at, values);
  finding.instances = {disk.name};
  finding.confidence = seen.requester == Requester::unknown ? Confidence::possible : Confidence::likely;
  if (loss.share) {
    (loss.at_most ? set_most_loss : set_loss)(context, finding, *loss.share * length, loss.how);
    set_severity(context, finding, seen);
  } else {
    finding.severity = Severity::notice;
    finding.impact.how = no_loss_words(context, seen, all);
  }
  Evidence busy = evidence_of(context, disk.busy, seen.excursion);
  busy.instance = disk.name;
  busy.detectors = seen_by(confirmed_by(context.detection, at));
  if (std::isnan(seen.excursion.outside)) busy.expected.reset();
  Evidence took = busy;
  took.metric = "disk.read_time";
  took.feature = "mean per request, with writes";
  took.unit = "s";
  took.observed = seen.took;
  took.expected = std::isnan(seen.usual) ? std::nullopt : std::optional(seen.usual);
  took.score.reset();
  finding.evidence = {std::move(busy), std::move(took)};
  add_contrast(context, finding, disk.bytes, at, all);
  add_contrast(context, finding, pressure_wait(context, Pressure::io_some), at, all);
  add_contrast(context, finding, rate(context, "job.cpu_time", 1e-9, "cpus"), at, all);
  finding.sentence = fmt::format(
      "The disk {} of {} was busy {:.0f} % of the time for {}, and a request took {} ms{}; it moved {}, {}.", disk.name,
      context.telemetry.node, 100 * seen.excursion.inside, duration(length), number(1000 * seen.took),
      std::isnan(seen.usual) ? "" : " (usually " + number(1000 * seen.usual) + " ms)", quantity(seen.moved, "bytes/s"),
      whose_words(seen));
  finding.runner_up = {"io.slow_reads", "storage that was not busy: this disk was busy, and its requests queued"};
  return finding;
}

/// A run that keeps the disk busy from its first second to its last has no baseline to compare with.
std::vector<Excursion> intervals(const RuleContext& context, const Disk& disk) {
  const double least = context.threshold("min_busy");
  // Searched is the time at which it was full: a half busy time after it is not part of it.
  auto full = over_seconds(context, disk.busy.values);
  for (double& value : full) value = std::isnan(value) ? value : (value >= least ? 1.0 : 0.0);
  auto found = excursions_of(context, full, 0.5, context.threshold(kMinScore.name), Cause::external);
  std::erase_if(found, [](const Excursion& each) { return each.recurring; });
  const std::vector<Interval> all = places(found);
  for (Excursion& each : found) {
    each.inside = mean_inside(disk.busy.values, each.at);
    each.outside = mean_outside(disk.busy.values, all);
  }
  std::erase_if(found, [&](const Excursion& each) { return each.inside < least; });
  return or_whole_run(context, disk.busy.values, least, std::move(found));
}

std::vector<Finding> check(const RuleContext& context) {
  const auto disks = disks_of(context);
  if (disks.empty()) throw Unavailable("not measured: disk.io_time, disk.read_time");
  std::vector<Finding> findings;
  std::vector<Interval> reported;  // a volume made of a disk repeats the signals of its disk
  for (const Disk& disk : disks) {
    const auto found = intervals(context, disk);
    const std::vector<Interval> all = places(found);
    for (const Excursion& excursion : found) {
      const Saturation seen = judged(context, disk, excursion, all);
      if (!is_slow(context, disk.name, seen.took, seen.usual)) continue;
      const auto same = [&](Interval at) { return overlap(at, excursion.at) > 0; };
      const Loss loss = loss_of(context, seen, all);
      if (!loss.share && !is_worth_a_note(context, seen)) continue;
      if (std::any_of(reported.begin(), reported.end(), same)) continue;
      reported.push_back(excursion.at);
      findings.push_back(describe(context, disk, seen, loss, all));
    }
  }
  return findings;
}

const RegisteredRule kRule{{
    .id = "io.local_disk_saturated",
    .title = "A disk of the node was overloaded",
    .looks_for =
        "Intervals in which a disk was busy nearly all the time (disk.io_time) and each request took many "
        "times as long as usual (disk.read_time, disk.write_time), while the job made less progress; without a loss, "
        "only what others did and detectors saw is noted. If it was busy "
        "throughout the run, the kind of the disk decides (disk.*.rotational).",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::storage,
    .order = 53,
    .look_alikes = "io.slow_reads,mem.writeback_stall,mem.swap_activity,a short checkpoint,loading when the job begins",
    .proof = Proof::real,
    .whole_machine = true,
    .thresholds = {{"min_busy", 0.9, "ratio", "least part of the time in which the disk was busy"},
                   {"min_time", 0.005, "s", "least time of a request"},
                   {"min_time_flash", 0.02, "s",
                    "the same for flash without NVMe, if the disk is busy throughout the run: no usual time is known"},
                   {"min_time_rotating", 0.05, "s", "the same for a disk that turns, or of unknown kind"},
                   {"min_ratio", 5, "ratio", "least time of a request, in multiples of the usual time"},
                   {"min_seconds", 8, "s", "shortest interval"},
                   kMinScore,
                   {"min_own_share", 0.5, "ratio", "part of the bytes from which the job itself is the cause"},
                   {"min_waiting", 0.1, "s/s", "least time in which work waited for io"},
                   {"min_stalled", 0.5, "s/s",
                    "least time in which all work waited, if the disk is busy throughout the run"},
                   {"min_slowed", 0.15, "ratio", "least fall of the job's cpu time"},
                   {"min_own_rate", 1e6, "bytes/s",
                    "least usual rate of the job's own reads and writes, where their fall is the cost"},
                   {"min_own_fall", 0.5, "ratio", "least fall of that rate while others fill the disk"},
                   {"start_seconds", 30, "s", "reading of the job's own that begins this early is only an observation"},
                   {"min_own_percent", 5, "percent",
                    "lost share of the run from which a load by the job itself is more than a notice"},
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy =
        {{"iostat -x {disk} 5   # on {node}, in the next run: %util near 100 with a high r_await or w_await is bad"},
         {"#SBATCH --exclusive   # the next run then has the node to itself; costs whole nodes", "job,outsider"},
         {"lsblk /dev/{disk}   # on {node}: where the file systems on it are mounted"}},
    .advice = {{"Read and write in larger blocks, and from fewer processes at a time.", "!outsider"},
               {"Keep frequently read files in memory: /dev/shm counts as memory of the job.", "!outsider", kOr},
               {"torch.distributed.checkpoint.async_save writes checkpoints in the background.", "torch,!outsider",
                kOr}},
    .admin_remedy = {"iotop -obn 3   # on {node}: which processes read and write",
                     "lsblk -s /dev/{disk}   # on {node}: the disks below it",
                     "smartctl -a /dev/{disk}   # errors and wear of that disk; for NVMe also nvme smart-log",
                     "cat /sys/block/{disk}/queue/scheduler   # for flash, it should show [none] or [mq-deadline]"},
    .verify = {.expected = "the time of a disk request is at its usual level"},
    .sources = {"https://docs.kernel.org/admin-guide/iostats.html", "https://docs.kernel.org/accounting/psi.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::io_local_disk
