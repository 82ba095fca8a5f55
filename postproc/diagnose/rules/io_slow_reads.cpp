// The job waited for storage that was not busy: a limit, a remote file system or a volume shared elsewhere gave it less
// than usual. A disk that is full of work is another matter.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/quantity.h"
#include "postproc/diagnose/rule.h"
#include "postproc/diagnose/signals.h"

namespace reveal {
namespace {

/// The job's own where its control group counts it, else the node's: there somebody else may be the one who waits, and
/// only the job's own loss makes it the job's.
std::optional<Signal> io_wait(const RuleContext& context) {
  if (auto own = rate(context, "cgroup.io_some", 1e-9, "s/s")) return own;
  return rate(context, "pressure.io_some", 1e-9, "s/s");
}

std::optional<Signal> reads(const RuleContext& context) {
  if (auto own = rate(context, "cgroup.read_bytes", 1, "bytes/s")) return own;
  return rate(context, "process.read_bytes", 1, "bytes/s", "rank");
}

std::optional<Signal> written_bytes(const RuleContext& context) {
  if (auto own = rate(context, "cgroup.write_bytes", 1, "bytes/s")) return own;
  return rate(context, "process.write_bytes", 1, "bytes/s", "rank");
}

/// Part of the time in which the busiest disk had something to do; nothing where there is no disk at all.
std::optional<Signal> disk_busy(const RuleContext& context, Interval at) {
  std::optional<Signal> busiest;
  double most = -1;
  for (const std::size_t channel : context.channels("disk.io_time")) {
    const auto series = context.telemetry.series(channel);
    const double mean = mean_inside(series, at);
    if (std::isnan(mean) || mean <= most) continue;
    most = mean;
    busiest = Signal{"disk.io_time", "s/s", {series.begin(), series.end()}};
  }
  if (busiest) {
    for (double& value : busiest->values) value *= 1e-9 / context.telemetry.step_seconds;
  }
  return busiest;
}

std::vector<Finding> check(const RuleContext& context) {
  const auto wait = io_wait(context);
  const auto read = reads(context);
  const auto used = rate(context, "job.cpu_time", 1e-9, "cpus");
  if (!wait) throw Unavailable("not measured: time in which work waited for io (PSI)");
  if (!read) throw Unavailable("not measured: bytes the job read from storage");
  if (!used) throw Unavailable("not measured: job.cpu_time");
  const auto writes = written_bytes(context);
  const auto found = find_elevations(wait->values, {.min_excess = context.threshold("min_wait"),
                                                    .min_length = context.steps(context.threshold("min_seconds")),
                                                    .window = context.steps(5),
                                                    .min_score = context.threshold("min_score"),
                                                    .floor = 0});
  const std::vector<Interval> all = places(found);
  std::vector<Finding> findings;
  for (const Elevation& elevation : found) {
    if (elevation.recurring || !elevation.beyond) continue;  // cold reads at each epoch are the job's habit
    const auto got = contrast(context, *used, elevation.at, all);
    const auto bytes = contrast(context, *read, elevation.at, all);
    if (!got || !bytes || got->outside <= 0) continue;
    const double slowed = 1 - got->inside / got->outside;
    if (slowed < context.threshold("min_slowed")) continue;
    // It read, and less than it usually does: else it waits for writes, or has become another program.
    if (bytes->inside < context.threshold("min_read") * 1e6 || bytes->inside > bytes->outside) continue;
    const auto written = writes ? contrast(context, *writes, elevation.at, all) : std::nullopt;
    if (written && written->excess() > bytes->outside - bytes->inside) continue;
    const auto busy = disk_busy(context, elevation.at);
    const double disk = busy ? mean_inside(busy->values, elevation.at) : 0;
    if (disk > context.threshold("max_disk_busy")) continue;

    Finding finding = context.finding();
    const double length = context.seconds(elevation.at.length());
    finding.intervals = {context.span(elevation.at.begin, elevation.at.end)};
    finding.confidence = wait->metric.starts_with("cgroup.") ? Confidence::likely : Confidence::possible;
    finding.impact.seconds = slowed * length;
    finding.impact.percent = 100 * slowed * length / job_seconds(context);
    finding.impact.how =
        fmt::format("the job used {} cpus instead of {} while it waited", number(got->inside), number(got->outside));
    finding.severity = severity_of_loss(*finding.impact.seconds, *finding.impact.percent,
                                        context.threshold("min_lost_seconds"), context.threshold("min_lost_percent"));
    Evidence evidence =
        evidence_of(context, *wait, {elevation.inside, elevation.outside, elevation.score}, elevation.at);
    evidence.detectors = {"interval search"};
    if (const auto confirmed = confirmed_by(context.detection, elevation.at)) {
      evidence.detectors.insert(evidence.detectors.end(), confirmed->methods.begin(), confirmed->methods.end());
      finding.confidence = Confidence::likely;
    }
    finding.evidence.push_back(std::move(evidence));
    finding.evidence.push_back(evidence_of(context, *read, *bytes, elevation.at));
    finding.evidence.push_back(evidence_of(context, *used, *got, elevation.at));
    if (busy) {
      if (const auto change = contrast(context, *busy, elevation.at, all)) {
        finding.evidence.push_back(evidence_of(context, *busy, *change, elevation.at));
      }
    }
    finding.sentence = fmt::format(
        "For {} s work on {} waited for storage {:.0f} % of the time (usually {:.0f} %) while the busiest disk was "
        "busy for {:.0f} %; the job read {} instead of {}.",
        number(length), context.telemetry.node, 100 * elevation.inside, 100 * elevation.outside, 100 * disk,
        quantity(bytes->inside, "bytes/s"), quantity(bytes->outside, "bytes/s"));
    finding.runner_up = {"io.local_disk_saturated",
                         fmt::format("no disk of the node was busy for more than {:.0f} %", 100 * disk)};
    findings.push_back(std::move(finding));
  }
  return findings;
}

const RegisteredRule kRule{{
    .id = "io.slow_reads",
    .title = "The job waited for reads from storage that was not busy",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::storage,
    .order = 52,
    .look_alikes = "io.local_disk_saturated,mem.writeback_stall,note.cold_cache",
    .proof = Proof::real,
    .thresholds = {{"min_wait", 0.1, "s/s", "least extra time in which work waited for io"},
                   {"min_seconds", 3, "s", "shortest interval"},
                   {"min_score", 4, "sd", "least distance from the usual level, in its own spread"},
                   {"min_slowed", 0.15, "ratio", "least fall of the job's cpu time"},
                   {"min_read", 0.1, "MB/s", "least the job must have read meanwhile"},
                   {"max_disk_busy", 0.6, "ratio", "busiest disk: above, the disk itself is the limit"},
                   {"min_lost_seconds", 1, "s", "lost run time from which it is a finding, else a notice"},
                   {"min_lost_percent", 0.5, "percent", "lost share of the run from which it is a finding"}},
    .user_remedy = {"cp -r /shared/data $TMPDIR/data              # once, then read from the node's own disk",
                    "DataLoader(..., num_workers=4, prefetch_factor=4)   # more reads under way hide the wait",
                    "cat /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup | tail -1)/io.max   # is there a limit?"},
    .admin_remedy = {"cat /sys/fs/cgroup/<the job's group>/io.max     # a limit left behind",
                     "nfsiostat 5 or lctl get_param osc.*.stats       # a slow server behind an idle disk"},
    .verify = "pressure.io_some stays at its usual level and the job reads as fast as in the rest of its run",
    .sources = {"https://docs.kernel.org/accounting/psi.html",
                "https://docs.kernel.org/admin-guide/cgroup-v2.html#io-interface-files"},
    .check = check,
}};

}  // namespace
}  // namespace reveal
