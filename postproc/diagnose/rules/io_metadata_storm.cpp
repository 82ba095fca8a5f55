// Many requests for names and attributes to a shared file system, and few for data: small files, searches, imports.
// Each of them is a round trip to a server that all jobs share, and the process waits for it.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::io_metadata_storm {
namespace {

/// Requests or calls for names and attributes, and for data. From Lustre only the calls that usually need its server.
constexpr std::array<std::string_view, 7> kNfsNames = {"GETATTR", "LOOKUP", "OPEN",   "ACCESS",
                                                       "CREATE",  "REMOVE", "READDIR"};
constexpr std::array<std::string_view, 2> kNfsData = {"READ", "WRITE"};
constexpr std::array<std::string_view, 11> kLustreNames = {
    "lustre.open",   "lustre.close", "lustre.getattr", "lustre.setattr", "lustre.mknod",  "lustre.link",
    "lustre.unlink", "lustre.mkdir", "lustre.rmdir",   "lustre.rename",  "lustre.readdir"};
constexpr std::array<std::string_view, 2> kLustreData = {"lustre.read_bytes_calls", "lustre.write_bytes_calls"};

/// The requests to one mount per second.
struct Mount {
  std::string name;
  std::string_view kind;  // its name among the values of a remedy
  MetricSeries names;
  MetricSeries data;
  std::optional<MetricSeries>
      waits;  // for names: how many were under way on average; not counted by all releases of Lustre
};

void add(MetricSeries& sum, const MetricSeries& more) {
  if (sum.values.empty()) sum.values.assign(more.values.size(), kNaN);
  if (sum.metric.empty()) sum.metric = more.metric;
  sum.unit = more.unit;
  for (std::size_t t = 0; t < more.values.size(); ++t) {
    if (std::isnan(more.values[t])) continue;
    sum.values[t] = std::isnan(sum.values[t]) ? more.values[t] : sum.values[t] + more.values[t];
  }
}

void add_channel(const RuleContext& context, std::string_view metric, const std::string& instance, double scale,
                 std::string_view unit, MetricSeries& sum) {
  for (const std::size_t channel : context.channels(metric, instance)) {
    add(sum, channel_rate(context, channel, scale, unit));
  }
}

/// The mounts of which a metric has instances, "/home:READ" or "scratch".
std::vector<std::string> mounts_with(const RuleContext& context, std::string_view metric) {
  std::vector<std::string> mounts;
  for (const std::size_t channel : context.channels(metric)) {
    const std::string& instance = context.telemetry.channels[channel].instance;
    const std::string mount = instance.substr(0, instance.rfind(':'));
    if (std::find(mounts.begin(), mounts.end(), mount) == mounts.end()) mounts.push_back(mount);
  }
  return mounts;
}

Mount nfs_mount(const RuleContext& context, const std::string& point) {
  Mount mount{point, "mount", {}, {}, MetricSeries{}};
  for (const std::string_view kind : kNfsNames) {
    const std::string instance = point + ':' + std::string(kind);
    add_channel(context, "nfs.requests", instance, 1, "/s", mount.names);
    add_channel(context, "nfs.execute_time", instance, 1e-9, "s/s", *mount.waits);
  }
  for (const std::string_view kind : kNfsData) {
    add_channel(context, "nfs.requests", point + ':' + std::string(kind), 1, "/s", mount.data);
  }
  return mount;
}

Mount lustre_mount(const RuleContext& context, const std::string& name) {
  Mount mount{name, "lustre", {}, {}, std::nullopt};
  for (const std::string_view call : kLustreNames) {
    add_channel(context, call, name, 1, "/s", mount.names);
    const std::string time = std::string(call) + "_time";
    if (context.channels(time, name).empty()) continue;
    if (!mount.waits) mount.waits.emplace();
    add_channel(context, time, name, 1e-9, "s/s", *mount.waits);
  }
  for (const std::string_view call : kLustreData) add_channel(context, call, name, 1, "/s", mount.data);
  return mount;
}

std::vector<Mount> mounts_of(const RuleContext& context) {
  std::vector<Mount> mounts;
  for (const std::string& point : mounts_with(context, "nfs.requests")) mounts.push_back(nfs_mount(context, point));
  std::vector<std::string> lustre;
  for (const std::string_view call : kLustreNames) {
    for (const std::string& name : mounts_with(context, call)) {
      if (std::find(lustre.begin(), lustre.end(), name) == lustre.end()) lustre.push_back(name);
    }
  }
  for (const std::string& name : lustre) mounts.push_back(lustre_mount(context, name));
  return mounts;
}

double mean_or_zero(const MetricSeries& signal, Interval at) {
  const double mean = mean_inside(signal.values, at);
  return std::isnan(mean) ? 0 : mean;
}

/// A storm from the first second to the last has no baseline to compare with.
std::vector<Excursion> intervals(const RuleContext& context, const Mount& mount) {
  const double least = context.threshold("min_rate");
  auto found = excursions_of(context, mount.names.values, least, context.threshold(kMinScore.name));
  return or_whole_run(context, mount.names.values, least, std::move(found));
}

/// Python imports its modules and a scheduler's prologue looks around: that is how jobs begin.
bool is_the_start(const RuleContext& context, Interval at) {
  return 2 * at.length() < context.telemetry.samples && at.end <= context.steps(context.threshold("start_seconds"));
}

void set_cost(const RuleContext& context, Finding& finding, const Mount& mount, Interval at) {
  if (!mount.waits) {
    set_loss(context, finding, std::nullopt, "not known: this release of Lustre does not count the time of calls");
    return;
  }
  const auto processes = level(context, "job.processes", "processes");
  const double width = processes ? std::max(1.0, mean_inside(processes->values, at)) : 1.0;
  const double under_way = mean_or_zero(*mount.waits, at);
  const double share = std::min(1.0, under_way / width);
  const auto blocked = level(context, "job.blocked", "processes");
  const double waited = blocked ? mean_inside(blocked->values, at) : kNaN;
  const std::string compared =
      std::isnan(waited) ? "the job had " + quantity(width, "processes")
                         : fmt::format("{} of the job's {} were blocked", number(waited), quantity(width, "processes"));
  set_most_loss(
      context, finding, share * context.seconds(at.length()),
      fmt::format("{} such requests were in progress on the node on average; {}", number(under_way), compared));
  // The counts are those of the node: others may have sent the requests.
  const bool shared = !context.snapshot_value("node.other_jobs").empty();
  if (shared || waited < context.threshold("min_blocked") * std::min(under_way, width)) {
    finding.confidence = Confidence::possible;
  }
  if (is_the_start(context, at)) finding.severity = Severity::info;
}

std::string sentence_of(const RuleContext& context, const Mount& mount, const Excursion& excursion, double data) {
  const std::string took =
      mount.waits
          ? fmt::format("; each took {} ms", number(1000 * mean_or_zero(*mount.waits, excursion.at) / excursion.inside))
          : "";
  return fmt::format(
      "{} asked {} for file names and attributes {} times a second for {}{}, and for data {} times a second{}.",
      context.telemetry.node, mount.name, number(excursion.inside), duration(context.seconds(excursion.at.length())),
      std::isnan(excursion.outside) ? "" : " (usually " + number(excursion.outside) + ")", number(data), took);
}

Finding describe(const RuleContext& context, const Mount& mount, const Excursion& excursion, double data,
                 std::span<const Interval> all) {
  const Interval at = excursion.at;
  Finding finding = finding_at(context, at, {{std::string(mount.kind), mount.name}});
  finding.instances = {mount.name};
  finding.confidence = Confidence::likely;
  Evidence evidence = evidence_of(context, mount.names, excursion);
  evidence.instance = mount.name;
  evidence.detectors = seen_by(confirmed_by(context.detection, at));
  if (std::isnan(excursion.outside)) evidence.expected.reset();
  finding.evidence.push_back(std::move(evidence));
  add_contrast(context, finding, mount.data, at, all);
  add_contrast(context, finding, mount.waits, at, all);
  set_cost(context, finding, mount, at);
  finding.sentence = sentence_of(context, mount, excursion, data);
  finding.runner_up = {"io.nfs_slow_server", "a slow server: the job then sends no more requests than usual"};
  return finding;
}

/// Names that are at hand in the client's cache cost nothing: a process must have waited for them.
bool is_waited_for(const RuleContext& context, const Mount& mount, Interval at) {
  return !mount.waits || mean_or_zero(*mount.waits, at) >= context.threshold("min_waiting");
}

std::vector<Finding> check(const RuleContext& context) {
  const auto mounts = mounts_of(context);
  if (mounts.empty()) {
    if (!context.channels("nfs.rpc_calls").empty()) return {};  // it was not used
    throw Unavailable("not measured: nfs.requests, lustre.open (no shared file system was seen)");
  }
  std::vector<Finding> findings;
  for (const Mount& mount : mounts) {
    if (mount.names.values.empty()) continue;
    const auto found = intervals(context, mount);
    const std::vector<Interval> all = places(found);
    for (const Excursion& excursion : found) {
      const double data = mount.data.values.empty() ? 0 : mean_or_zero(mount.data, excursion.at);
      if (excursion.inside < context.threshold("min_per_data") * data) continue;
      if (!is_waited_for(context, mount, excursion.at)) continue;
      findings.push_back(describe(context, mount, excursion, data, all));
    }
  }
  return findings;
}

const RegisteredRule kRule{{
    .id = "io.metadata_storm",
    .title = "The job sends very many metadata requests to a file system",
    .looks_for = "Intervals with many requests for names and attributes (nfs.requests of LOOKUP, GETATTR, OPEN ...; "
                 "lustre.open, lustre.getattr ...), few data requests, and processes that wait for them (job.blocked).",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::storage,
    .order = 82,
    .look_alikes = "io.nfs_slow_server,imports when the job begins,many files on a local disk",
    .proof = Proof::guest,
    .thresholds = {{"min_rate", 1000, "/s", "least rate of requests for names and attributes"},
                   {"min_per_data", 5, "ratio", "least number of them per data request"},
                   {"min_waiting", 0.3, "requests", "least number of them in progress on average"},
                   {"min_blocked", 0.25, "ratio",
                    "blocked processes of the job per request in progress; below, others may have sent them"},
                   {"min_seconds", 10, "s", "shortest interval"},
                   {"start_seconds", 120, "s",
                    "a burst that ends this early is part of the job's start: only an observation"},
                   kMinScore,
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {"strace -c -f -e trace=%file   # in a short run, several times slower: which calls, how many"},
    .advice = {"Pack many small files into few large ones (tar shards, HDF5, LMDB, squashfs) and read those.",
               {"Copy the environment or the data to storage of the node when the job begins, as one archive.", kOr},
               {"List a directory once and keep the list; do not search or stat in a loop.", kOr}},
    .admin_remedy =
        {"nfsiostat 5 {mount}   # which requests, and how long they take",
         "Set nconnect=4,actimeo=60 for {mount} in fstab or the automount map; it takes effect when no mount of that "
         "server is left. Set actimeo only for files that do not change while jobs run.",
         "lctl get_param 'llite.{lustre}-*.stats' 'mdc.{lustre}-*.stats'   # which calls, and how long"},
    .verify = {.expected = "requests for names and attributes are a tenth of those of this run"},
    .sources = {"https://man7.org/linux/man-pages/man8/nfsiostat.8.html",
                "https://man7.org/linux/man-pages/man5/nfs.5.html", "https://doc.lustre.org/lustre_manual.xhtml"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::io_metadata_storm
