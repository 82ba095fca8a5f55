// One NUMA node is full while another one idles: its memory, so that the kernel has to free memory there although the
// machine has plenty, or its cpus, so that ranks wait for each other.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/diagnose/memory_signals.h"
#include "postproc/diagnose/numa_layout.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::numa_pileup {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

/// Memory of a NUMA node that programs could still have, page cache included, as a part of all of it, at each step.
struct Room {
  int node = 0;
  std::vector<double> share;
};

std::vector<Room> rooms(const RuleContext& context, const NumaLayout& layout) {
  std::vector<Room> found;
  for (const int node : layout.nodes) {
    const NumaMemory memory = numa_memory(context, node);
    if (memory.total.empty() || memory.free.empty() || memory.cache.empty()) continue;
    Room room{node, std::vector<double>(memory.total.size(), kNaN)};
    bool large = false;
    for (std::size_t t = 0; t < room.share.size(); ++t) {
      large = large || memory.total[t] >= kGiB;
      if (memory.total[t] > 0) room.share[t] = (memory.free[t] + memory.cache[t]) / memory.total[t];
    }
    if (large) found.push_back(std::move(room));
  }
  return found;
}

/// The longest stretch in which one is full and the other is not; short looks of the other kind in it do not end it.
Interval full_beside_empty(const RuleContext& context, const Room& full, const Room& empty) {
  const double least = context.threshold("max_left");
  const double much = context.threshold("min_left_elsewhere");
  const std::size_t patience = context.steps(2);
  Interval longest;
  Interval current;
  for (std::size_t t = 0; t < full.share.size(); ++t) {
    if (!(full.share[t] <= least && empty.share[t] >= much)) continue;
    if (current.length() == 0 || t > current.end + patience) current.begin = t;
    current.end = t + 1;
    if (current.length() > longest.length()) longest = current;
  }
  return longest;
}

struct Pile {
  int full = 0;
  int empty = 0;
  Interval at;
  double left = 0;            // parts of the memory
  double left_elsewhere = 0;  // likewise
};

std::optional<Pile> largest_pile(const RuleContext& context, std::span<const Room> all) {
  std::optional<Pile> longest;
  for (const Room& full : all) {
    for (const Room& empty : all) {
      const Interval at = full_beside_empty(context, full, empty);
      if (at.length() < context.steps(context.threshold("min_seconds"))) continue;
      if (longest && at.length() <= longest->at.length()) continue;
      longest = Pile{full.node, empty.node, at, mean_inside(full.share, at), mean_inside(empty.share, at)};
    }
  }
  return longest;
}

std::optional<MetricSeries> of_node(const RuleContext& context, std::string_view metric, int node, double scale,
                                    std::string_view unit) {
  const auto channels = context.channels(metric, "node" + std::to_string(node));
  if (channels.empty()) return std::nullopt;
  return channel_rate(context, channels.front(), scale, unit);
}

/// Allocations that waited until memory was freed: on the full node where the kernel counts by node (6.17 and later),
/// else on the machine. The kernel's own background work costs them nothing.
std::optional<MetricSeries> waited_for_room(const RuleContext& context, int node) {
  if (auto own = of_node(context, "numa_vm.pgscan_direct", node, context.page_bytes(), "bytes/s")) return own;
  return rate(context, "vmstat.pgscan_direct", context.page_bytes(), "bytes/s");
}

double idle_huge_pages(const RuleContext& context, int node) {
  double idle = 0;
  const std::string prefix = "node" + std::to_string(node) + "/";
  for (const std::size_t channel : context.channels("hugepages.free")) {
    if (!context.telemetry.channels[channel].instance.starts_with(prefix)) continue;
    const double free = mean_inside(context.telemetry.series(channel), {0, context.telemetry.samples});
    if (!std::isnan(free)) idle += free;
  }
  return idle;
}

Evidence part(const RuleContext& context, std::string_view metric, int node, double observed, double expected,
              const Finding& finding, std::string_view feature) {
  return {.metric = std::string(metric),
          .instance = "node" + std::to_string(node),
          .node = context.telemetry.node,
          .feature = std::string(feature),
          .observed = observed,
          .expected = expected,
          .unit = "ratio",
          .span = finding.intervals.front(),
          .detectors = {},
          .score = std::nullopt};
}

JobValues values_of(const RuleContext& context, double huge) {
  JobValues values{{"memory", "yes"}};
  const std::string mode = context.snapshot_value("vm.zone_reclaim_mode");
  if (!mode.empty() && mode != "0") values["zone_reclaim"] = mode;
  if (huge >= kGiB) values["huge"] = "yes";
  return values;
}

Finding describe(const RuleContext& context, const Pile& pile, const MetricSeries& scanned, const MetricSeries& waits) {
  const double huge = idle_huge_pages(context, pile.full);
  Finding finding = finding_at(context, pile.at, values_of(context, huge));
  const double waiting = mean_inside(waits.values, pile.at);
  set_most_loss(context, finding, waiting * context.seconds(pile.at.length()),
                fmt::format("some task waited for memory {} % of this time", number(100 * waiting)));
  finding.confidence = waits.metric.starts_with("cgroup.") ? Confidence::likely : Confidence::possible;
  finding.instances = {"node" + std::to_string(pile.full)};
  finding.evidence = {part(context, "numa_mem.free", pile.full, pile.left, pile.left_elsewhere, finding,
                           "memory left, page cache included; expected: as on the other node")};
  for (const MetricSeries* signal : {&scanned, &waits}) {
    Evidence evidence;
    evidence.metric = signal->metric;
    evidence.node = context.telemetry.node;
    evidence.feature = "mean";
    evidence.observed = mean_inside(signal->values, pile.at);
    evidence.unit = signal->unit;
    evidence.span = finding.intervals.front();
    finding.evidence.push_back(std::move(evidence));
  }
  if (scanned.metric.starts_with("numa_vm.")) finding.evidence[1].instance = finding.instances.front();
  finding.sentence = fmt::format(
      "NUMA node {} of {} was full for {}: {:.0f} % of its memory was left, against {:.0f} % on node {}; programs "
      "waited until the kernel had freed memory there ({} scanned){}.",
      pile.full, context.telemetry.node, duration(context.seconds(pile.at.length())), 100 * pile.left,
      100 * pile.left_elsewhere, pile.empty, quantity(mean_inside(scanned.values, pile.at), "bytes/s"),
      huge >= kGiB ? fmt::format("; {} of it are unused huge pages", quantity(huge, "bytes")) : "");
  finding.runner_up = {"mem.leak_oom_risk",
                       fmt::format("a job that needs too much memory fills all nodes: {:.0f} % of node "
                                   "{}'s memory was left",
                                   100 * pile.left_elsewhere, pile.empty)};
  return finding;
}

std::vector<Finding> check_memory(const RuleContext& context, const NumaLayout& layout) {
  const std::vector<Room> all = rooms(context, layout);
  if (all.size() < 2) throw Unavailable("not measured: numa_mem.* of two nodes");
  const auto pile = largest_pile(context, all);
  if (!pile) return {};
  const MetricSeries scanned = needed(waited_for_room(context, pile->full), "vmstat.pgscan_direct");
  const MetricSeries waits =
      needed(pressure_wait(context, Pressure::memory_some), "time in which work waited for memory (PSI)");
  if (!(mean_inside(scanned.values, pile->at) >= context.threshold("min_scanned") * 1e6)) return {};
  if (!(mean_inside(waits.values, pile->at) >= context.threshold("min_wait"))) return {};
  // At the limit of a control group, the kernel frees memory of that group, on whatever node.
  const bool by_node = scanned.metric.starts_with("numa_vm.");
  if (!by_node && limit_met(context, pile->at)) return {};
  return {describe(context, *pile, scanned, waits)};
}

// ---------------------------------------------------------------------------------------------------- cpus of a node

struct Crowded {
  int node = 0;
  double busy = 0;  // 0..1
};

/// Mean use of a node's cpus that some process of the job may run on; nothing where not each was measured.
std::optional<double> use_of(const RuleContext& context, const NumaLayout& layout, int node) {
  const Interval whole{0, context.telemetry.samples};
  double busy = 0;
  double cpus = 0;
  for (const auto& [cpu, its_node] : layout.node_of_cpu) {
    const std::string name = "cpu" + std::to_string(cpu);
    const auto allowed = context.channels("job.cpu_allowed", name);
    if (its_node != node || allowed.empty()) continue;
    if (!(mean_inside(context.telemetry.series(allowed.front()), whole) > 0.5)) continue;
    for (const std::string_view metric : {"cpu.user", "cpu.nice", "cpu.system"}) {
      const auto channel = context.channels(metric, name);
      if (channel.empty()) return std::nullopt;
      busy += mean_inside(channel_rate(context, channel.front(), 1e-9, "cpus").values, whole);
    }
    cpus += 1;
  }
  if (cpus == 0 || std::isnan(busy)) return std::nullopt;
  return busy / cpus;
}

/// Ranks that may not use all cpus of the job: else the kernel would spread them itself.
std::size_t confined_ranks(const RuleContext& context, double allowed) {
  std::size_t ranks = 0;
  const Interval whole{0, context.telemetry.samples};
  for (const std::size_t channel : context.channels("process.cpus_allowed")) {
    if (context.telemetry.channels[channel].role != "rank") continue;
    if (mean_inside(context.telemetry.series(channel), whole) < allowed) ++ranks;
  }
  return ranks;
}

std::vector<Finding> check_cpus(const RuleContext& context, const NumaLayout& layout) {
  std::vector<Crowded> nodes;
  for (const int node : layout.open) {
    if (const auto busy = use_of(context, layout, node)) nodes.push_back({node, *busy});
  }
  if (nodes.size() < 2) return {};
  const auto [idle, full] = std::minmax_element(nodes.begin(), nodes.end(),
                                                [](const Crowded& a, const Crowded& b) { return a.busy < b.busy; });
  if (full->busy < context.threshold("min_busy") || full->busy - idle->busy < context.threshold("min_spread"))
    return {};
  const Interval whole{0, context.telemetry.samples};
  const auto wait = cpu_wait(context);
  const auto used = rate(context, "job.cpu_time", 1e-9, "cpus");
  const auto allowed = level(context, "job.cpus_allowed", "cpus");
  if (!wait || !used || !allowed) return {};
  const double waited = mean_inside(wait->values, whole);
  const double got = mean_inside(used->values, whole);
  const std::size_t ranks = confined_ranks(context, mean_inside(allowed->values, whole));
  if (ranks < 2 || !(waited >= context.threshold("min_cpu_wait")) || !(got > 0)) return {};
  // The crowd must be the job's own: with others there, they are the cause.
  const auto cpus = static_cast<double>(layout.cpus_of(full->node));
  if (got < context.threshold("min_own") * full->busy * cpus) return {};

  Finding finding = finding_at(context, whole, {{"cpus_of_node", "yes"}});
  set_most_loss(context, finding, waited / (waited + got) * job_seconds(context),
                fmt::format("its threads ran on {} and waited for {} more", counted(got, "cpu"), number(waited)));
  finding.confidence = Confidence::likely;
  finding.instances = {"node" + std::to_string(full->node)};
  finding.evidence = {part(context, "cpu.utilization", full->node, full->busy, idle->busy, finding,
                           "mean of the node's cpus; expected: as on the other node")};
  Evidence waiting = finding.evidence.front();
  waiting.metric = wait->metric;
  waiting.instance = "";
  waiting.feature = "mean";
  waiting.observed = waited;
  waiting.expected.reset();
  waiting.unit = wait->unit;
  finding.evidence.push_back(waiting);
  finding.sentence = fmt::format(
      "The job's ranks on {} are concentrated on NUMA node {}: its cpus were busy {:.0f} % of the time, those of node "
      "{} {:.0f} "
      "%, "
      "which the job may use, too; its threads waited for {}.",
      context.telemetry.node, full->node, 100 * full->busy, idle->node, 100 * idle->busy, counted(waited, "cpu"));
  finding.runner_up = {"cpu.affinity_too_narrow", "cpus that no process may use: some processes may use the idle cpus"};
  return {finding};
}

std::vector<Finding> check(const RuleContext& context) {
  const NumaLayout layout = numa_layout(context);
  if (layout.nodes.size() < 2) return {};
  auto crowded = check_cpus(context, layout);
  return crowded.empty() ? check_memory(context, layout) : std::move(crowded);
}

const RegisteredRule kRule{{
    .id = "numa.single_node_pileup",
    .title = "One NUMA node is full while another is idle",
    .looks_for =
        "A NUMA node without free memory beside a node with free memory (numa_mem.*), on which allocations had to wait "
        "(pgscan_direct, memory pressure); or ranks bound to the cpus of one node while the cpus of another node are "
        "idle (cpu.user, cpu.system, job.wait_time).",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::memory,
    .order = 29,
    .look_alikes = "mem.leak_oom_risk,mem.hugepages_reserved_idle,page cache,a job at its memory limit,"
                   "cpu.affinity_too_narrow",
    .proof = Proof::guest,
    .whole_machine = true,
    .thresholds = {{"max_left", 0.05, "ratio", "most memory left on the full node, page cache included"},
                   {"min_left_elsewhere", 0.4, "ratio", "least memory left on another node"},
                   {"min_seconds", 5, "s", "shortest interval"},
                   {"min_scanned", 4, "MB/s", "least memory scanned by allocations that waited"},
                   {"min_wait", 0.05, "s/s", "least time in which some task waited for memory"},
                   {"min_busy", 0.85, "ratio", "least utilisation of the cpus of the crowded node"},
                   {"min_spread", 0.6, "ratio", "least difference from the cpus of the idle node"},
                   {"min_cpu_wait", 0.3, "s/s", "least wait of the job's threads for a cpu"},
                   {"min_own", 0.7, "ratio", "least part of the crowded cpus that the job itself used"},
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy =
        {{"srun --distribution=block:cyclic --cpu-bind=ldoms   # ranks in turn on each NUMA node", "job"},
         {"numactl --interleave=all   # for a process larger than a node; without --membind", "memory", kOr},
         {"mpirun --map-by numa --bind-to numa   # Open MPI", "cpus_of_node", kOr},
         {"grep -E 'MemTotal|MemFree' /sys/devices/system/node/node*/meminfo   # on {node}: memory of each NUMA node",
          "memory"}},
    .admin_remedy = {{"sysctl vm.zone_reclaim_mode=0   # changes the node until its next boot; it is {zone_reclaim}: "
                      "the kernel reclaims memory of a full node before it uses another",
                      "zone_reclaim"},
                     {"grep . /sys/devices/system/node/node*/hugepages/hugepages-*/nr_hugepages   # on {node}: huge "
                      "pages of each NUMA node, which should be as many",
                      "huge"}},
    .verify = {.expected = "free memory and busy cpus of the NUMA nodes differ little"},
    .sources = {"https://docs.kernel.org/admin-guide/numastat.html",
                "https://docs.kernel.org/admin-guide/sysctl/vm.html#zone-reclaim-mode"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::numa_pileup
