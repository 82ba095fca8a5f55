// The job waited for storage that was not busy: a limit, a remote file system or a volume shared elsewhere gave it less
// than usual. A disk that is full of work is another matter.
#include <spdlog/fmt/fmt.h>

#include <cmath>

#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::io_slow_reads {
namespace {

std::optional<MetricSeries> reads(const RuleContext& context) {
  if (auto own = rate(context, "cgroup.read_bytes", 1, "bytes/s")) return own;
  return rate(context, "process.read_bytes", 1, "bytes/s", "rank");
}

std::optional<MetricSeries> written_bytes(const RuleContext& context) {
  if (auto own = rate(context, "cgroup.write_bytes", 1, "bytes/s")) return own;
  return rate(context, "process.write_bytes", 1, "bytes/s", "rank");
}

/// Part of the time in which the busiest disk had something to do; nothing where there is no disk at all.
std::optional<MetricSeries> disk_busy(const RuleContext& context, Interval at) {
  std::optional<MetricSeries> busiest;
  double most = -1;
  for (const std::size_t channel : context.channels("disk.io_time")) {
    const double mean = mean_inside(context.telemetry.series(channel), at);
    if (std::isnan(mean) || mean <= most) continue;
    most = mean;
    busiest = channel_rate(context, channel, 1e-9, "s/s");
  }
  return busiest;
}

/// The remote ones: NFS mounts from which data were read at that time, and whether there is Lustre.
JobValues file_systems_read(const RuleContext& context, Interval at) {
  constexpr std::string_view kRead = ":READ";
  std::string mounts;
  for (const std::size_t channel : context.channels("nfs.requests")) {
    std::string_view mount = context.telemetry.channels[channel].instance;
    if (!mount.ends_with(kRead) || !(mean_inside(context.telemetry.series(channel), at) > 0)) continue;
    mount.remove_suffix(kRead.size());
    mounts.append(mounts.empty() ? "" : "\n").append(mount);
  }
  JobValues values;
  if (!mounts.empty()) values["mount"] = mounts;
  if (!context.channels("lustre.read_bytes").empty()) values["lustre"] = "yes";
  return values;
}

/// " Data came from the NFS mounts /data, /home."
std::string mount_words(const JobValues& file_systems) {
  constexpr std::size_t kMostNamed = 3;
  const auto mounts = file_systems.find("mount");
  if (mounts == file_systems.end()) return "";
  std::vector<std::string> names;
  std::string_view rest = mounts->second;
  for (std::string_view name; next_line(rest, name);) names.emplace_back(name);
  return fmt::format(" Data came from the NFS mount{} {}.", names.size() == 1 ? "" : "s", listed(names, kMostNamed));
}

std::vector<Finding> check(const RuleContext& context) {
  // The node's wait may be that of other processes: only the job's own loss makes it the job's.
  const MetricSeries wait = needed(pressure_wait(context, Pressure::io_some), "time in which work waited for io (PSI)");
  const MetricSeries read = needed(reads(context), "bytes the job read from storage");
  const MetricSeries used = needed(rate(context, "job.cpu_time", 1e-9, "cpus"), "job.cpu_time");
  const auto writes = written_bytes(context);
  const auto found = excursions_of(context, wait.values, context.threshold("min_wait"), context.threshold("min_score"));
  const std::vector<Interval> all = places(found);
  std::vector<Finding> findings;
  for (const Excursion& excursion : found) {
    if (excursion.recurring || !excursion.beyond) continue;  // cold reads at each epoch are a pattern of the job
    const auto got = inside_outside(context, used, excursion.at, all);
    const auto bytes = inside_outside(context, read, excursion.at, all);
    if (!got || !bytes || got->outside <= 0) continue;
    const double slowed = got->fall();
    if (slowed < context.threshold("min_slowed")) continue;
    // It read, and less than it usually does: else it waits for writes, or has become another program.
    if (bytes->inside < context.threshold("min_read") * 1e6 || bytes->inside > bytes->outside) continue;
    const auto written = inside_outside(context, writes, excursion.at, all);
    if (written && written->excess() > bytes->outside - bytes->inside) continue;
    const auto busy = disk_busy(context, excursion.at);
    const double disk = busy ? mean_inside(busy->values, excursion.at) : 0;
    if (disk > context.threshold("max_disk_busy")) continue;

    const JobValues file_systems = file_systems_read(context, excursion.at);
    Finding finding = finding_at(context, excursion.at, file_systems);
    const double length = context.seconds(excursion.at.length());
    const auto confirmed = confirmed_by(context.detection, excursion.at);
    const bool its_own = wait.metric.starts_with("cgroup.");
    finding.confidence = its_own || confirmed ? Confidence::likely : Confidence::possible;
    set_loss(context, finding, slowed * length,
             fmt::format("the job used {} instead of {} while it waited", counted(got->inside, "cpu"),
                         number(got->outside)));
    finding.evidence = {evidence_of(context, wait, excursion), evidence_of(context, read, *bytes, excursion.at),
                        evidence_of(context, used, *got, excursion.at)};
    finding.evidence.front().detectors = seen_by(confirmed);
    add_contrast(context, finding, busy, excursion.at, all);
    finding.sentence = fmt::format(
        "{} on {} waited for storage {:.0f} % of the time for {} (usually {:.0f} %): the job read {} instead of {}{}.",
        its_own ? "The job" : "Processes", context.telemetry.node, 100 * excursion.inside, duration(length),
        100 * excursion.outside, quantity(bytes->inside, "bytes/s"), quantity(bytes->outside, "bytes/s"),
        busy ? ", and no local disk was busy" : "");
    finding.sentence += mount_words(file_systems);
    finding.runner_up = {
        "", busy ? fmt::format("a busy disk: the busiest disk of the node was in use {:.0f} % of that time", 100 * disk)
                 : "a busy disk cannot be ruled out: no disk of the node was measured"};
    findings.push_back(std::move(finding));
  }
  return findings;
}

const RegisteredRule kRule{{
    .id = "io.slow_reads",
    .title = "The job waited for reads although no local disk was busy",
    .looks_for = "Intervals in which the job waited for io (cgroup.io_some, pressure.io_some) and read, got less cpu "
                 "time than usual, and no disk was busy (disk.io_time).",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::storage,
    .order = 52,
    .look_alikes = "mem.writeback_stall,a full disk,a cold cache",
    .proof = Proof::real,
    .thresholds = {{"min_wait", 0.1, "s/s", "least extra time in which work waited for io"},
                   {"min_seconds", 3, "s", "shortest interval"},
                   kMinScore,
                   {"min_slowed", 0.15, "ratio", "least fall of the job's cpu time"},
                   {"min_read", 0.1, "MB/s", "least rate of the job's reads at that time"},
                   {"max_disk_busy", 0.6, "ratio",
                    "utilisation of the busiest disk; above, the disk itself is the limit"},
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy =
        {"nfsiostat 5 {mount}   # on {node}, in the next run: avg RTT is the server and the network",
         {"grep -rs --include=io.max . /sys/fs/cgroup   # on {node}, in the next run: no line means no limit",
          "!cgroup_v1"},
         {"cat /sys/fs/cgroup/blkio$(grep :blkio: /proc/self/cgroup | cut -d: -f3)/blkio.throttle.read_bps_device   # "
          "in the job script of the next run: no line means no limit",
          "cgroup_v1"}},
    .advice = {{"Copy the input to storage of the node once, and read it there.", "mount"},
               {"If the input is on shared storage, copy it to storage of the node once, and read it there. If not, "
                "tell the administrators that reads on {node} were slow at that time, without a busy disk.",
                "!mount", kIf},
               {"More workers and a larger prefetch_factor of the DataLoader hide short waits.", "torch", kOr}},
    .admin_remedy =
        {"nfsiostat 5 {mount}   # on {node}: a slow server behind an idle disk",
         {"lctl get_param 'llite.*.stats' 'osc.*.stats'   # on {node}, in the next run: which calls, and how long",
          "lustre"},
         {"grep -rs --include=io.max . /sys/fs/cgroup   # on {node}: limits that are set", "!cgroup_v1"},
         {"grep -rs --include='blkio.throttle.*_device' . /sys/fs/cgroup/blkio   # on {node}: limits that are set",
          "cgroup_v1"}},
    .verify = {.expected = "the job reads as fast as in the rest of its run"},
    .sources = {"https://docs.kernel.org/accounting/psi.html",
                "https://docs.kernel.org/admin-guide/cgroup-v2.html#io-interface-files"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::io_slow_reads
