// The memory of a package delivers its maximum: a limit that the job has reached, not a fault. Only a measurement by
// the site (STREAM) gives the maximum, so the rule is silent until that is set.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/diagnose/memory_signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::mem_bandwidth {
namespace {

std::set<std::string> packages(const RuleContext& context) {
  std::set<std::string> names;
  for (const std::string_view metric : {"platform.memory_read", "platform.memory_traffic"}) {
    for (const std::size_t channel : context.channels(metric))
      names.insert(context.telemetry.channels[channel].instance);
  }
  return names;
}

/// Bytes per second that the memory of a package moved.
std::optional<MetricSeries> bandwidth_of(const RuleContext& context, const std::string& package) {
  const auto moved = [&](std::string_view metric) -> std::optional<MetricSeries> {
    const auto channels = context.channels(metric, package);
    if (channels.empty()) return std::nullopt;
    return channel_rate(context, channels.front(), 1, "bytes/s");
  };
  auto traffic = moved("platform.memory_read");
  if (const auto written = moved("platform.memory_written"); traffic && written) {
    for (std::size_t t = 0; t < traffic->values.size(); ++t) traffic->values[t] += written->values[t];
  } else {
    traffic = moved("platform.memory_traffic");  // not separated
  }
  if (traffic) traffic->metric = "platform.memory_bandwidth";
  return traffic;
}

/// Part of the measured time in which a package moved nearly as much as it can, and how much then.
struct Full {
  std::string package;
  MetricSeries traffic;
  double share = 0;
  double mean = 0;  // bytes/s, in that time
};

Full time_near_limit(const RuleContext& context, const std::string& package, MetricSeries traffic, double limit) {
  Full full{package, std::move(traffic)};
  std::size_t measured = 0;
  std::size_t count = 0;
  for (const double value : full.traffic.values) {
    if (std::isnan(value)) continue;
    ++measured;
    if (value < context.threshold("min_use") * limit) continue;
    ++count;
    full.mean += value;
  }
  if (count > 0) full.mean /= static_cast<double>(count);
  if (measured > 0) full.share = static_cast<double>(count) / static_cast<double>(measured);
  return full;
}

std::vector<Full> full_packages(const RuleContext& context, double limit) {
  std::vector<Full> found;
  for (const std::string& package : packages(context)) {
    auto traffic = bandwidth_of(context, package);
    if (!traffic) continue;
    Full full = time_near_limit(context, package, *std::move(traffic), limit);
    if (full.share >= context.threshold("min_time") &&
        full.share * job_seconds(context) >= context.threshold("min_seconds"))
      found.push_back(std::move(full));
  }
  std::stable_sort(found.begin(), found.end(), [](const Full& a, const Full& b) { return a.share > b.share; });
  return found;
}

/// With few waiting cycles the traffic is hidden; with many accesses to another socket that comes first.
bool is_explained_otherwise(const RuleContext& context) {
  const Interval whole{0, context.telemetry.samples};
  const auto stalls = stall_ratio(context);
  if (stalls && mean_inside(stalls->values, whole) < context.threshold("min_stalls")) return true;
  const auto remote = remote_share(context);
  return remote && mean_inside(remote->values, whole) > context.threshold("max_remote");
}

/// True if the job used most of the cpu time of the node: otherwise others may have caused the traffic.
bool is_the_jobs(const RuleContext& context) {
  const auto used = rate(context, "job.cpu_time", 1e-9, "cpus");
  const auto user = rate(context, "cpu.user", 1e-9, "cpus");
  const auto system = rate(context, "cpu.system", 1e-9, "cpus");
  if (!used || !user || !system) return false;
  const Interval whole{0, context.telemetry.samples};
  const double all = mean_inside(user->values, whole) + mean_inside(system->values, whole);
  return mean_inside(used->values, whole) >= context.threshold("min_own") * all;
}

std::vector<Finding> check(const RuleContext& context) {
  const double limit = context.threshold("stream") * 1e9;
  if (packages(context).empty()) throw Unavailable("not measured: platform.memory_read and platform.memory_traffic");
  if (!(limit > 0)) {
    throw Unavailable("not known: the memory's bandwidth; set stream in [rule.\"mem.bw_saturated\"]");
  }
  const std::vector<Full> found = full_packages(context, limit);
  if (found.empty() || is_explained_otherwise(context) || !is_the_jobs(context)) return {};
  const Interval whole{0, context.telemetry.samples};
  Finding finding = finding_at(context, whole);
  finding.severity = Severity::info;  // well-tuned programs are here
  const bool counted = stall_ratio(context).has_value();
  finding.confidence = counted ? Confidence::likely : Confidence::possible;
  finding.impact.how =
      "none: this is the limit of the machine, not a fault; another layout of the job may use it better";
  for (const Full& full : found) {
    finding.instances.push_back(full.package);
    finding.evidence.push_back({.metric = full.traffic.metric,
                                .instance = full.package,
                                .node = context.telemetry.node,
                                .feature = "mean while it was near the limit; expected: the limit",
                                .observed = full.mean,
                                .expected = limit,
                                .unit = "bytes/s",
                                .span = finding.intervals.front(),
                                .detectors = {},
                                .score = std::nullopt});
  }
  std::vector<MemoryPicture> picture = memory_picture(context, whole);
  std::erase_if(picture, [](const MemoryPicture& each) { return each.signal.unit == "bytes/s"; });
  for (const MemoryPicture& each : picture) finding.evidence.push_back(evidence_of(context, each, whole));
  const Full& first = found.front();
  finding.sentence =
      fmt::format("Limit reached: {} of {} moved {} of the {} its memory can deliver, for {:.0f} % of the run{}.",
                  first.package, context.telemetry.node, quantity(first.mean, "bytes/s"), quantity(limit, "bytes/s"),
                  100 * first.share, picture.empty() ? "" : "; " + in_words(picture));
  finding.runner_up = {"numa.mem_remote", counted && remote_share(context)
                                              ? "memory of another socket: few accesses went to it"
                                              : "memory of another socket cannot be ruled out: accesses to it were not "
                                                "counted"};
  return {finding};
}

const RegisteredRule kRule{{
    .id = "mem.bw_saturated",
    .title = "The memory bandwidth is the limit",
    .looks_for = "A package whose memory controllers move nearly the bandwidth that the site has measured "
                 "(platform.memory_read and similar metrics), while cycles wait (pmu.l3_stalls, pmu.backend_stalls).",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::memory,
    .order = 94,
    .look_alikes = "numa.mem_remote,traffic that prefetching hides,others on the node",
    .proof = Proof::test_double,
    .whole_machine = true,
    .thresholds = {{"stream", 0, "GB/s", "memory bandwidth of a package, as measured by the site; 0: unknown"},
                   {"min_use", 0.8, "ratio", "part of that bandwidth from which the traffic is near the limit"},
                   {"min_time", 0.3, "ratio", "least part of the run near the limit"},
                   {"min_seconds", 10, "s", "least time near the limit"},
                   {"min_stalls", 0.2, "ratio", "least part of the cycles that waited, if that was counted"},
                   {"max_remote", 0.25, "ratio", "most accesses to another socket, if they were counted"},
                   {"min_own", 0.8, "ratio", "least part of the node's cpu time that the job used"}},
    .user_remedy = {{"#SBATCH --hint=memory_bound   # one core per socket, therefore more nodes", "job"},
                    {"srun --ntasks-per-socket=1 --cpu-bind=ldoms   # in place of --hint; then 2 and 4: compare", "job",
                     kOr}},
    .advice = {{"Accept it, or move less data: block loops for the cache, fuse kernels, use lower precision.", kOr},
               {"Use more nodes: they have more bandwidth; more cores of the same socket have not.", kOr}},
    .admin_remedy =
        {"dmidecode -t memory | grep -E 'Locator|Speed'   # each channel must have a module, at its full speed"},
    .verify = {.expected = "platform.memory_bandwidth is below 80 % of the limit"},
    .sources = {"https://slurm.schedmd.com/srun.html#OPT_hint", "https://github.com/RRZE-HPC/likwid/wiki",
                "https://docs.kernel.org/admin-guide/perf/index.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::mem_bandwidth
