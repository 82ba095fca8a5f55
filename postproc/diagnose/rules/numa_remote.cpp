// The job's memory lies on another NUMA node than the cpus that use it, because it is bound there or because the own
// node was full. The first available of three measures is used: where the pages of each process lie against the cpus it
// may use (numa_maps), where the pages of the job's control group lie (memory.numa_stat), and pages given out by
// another node than the requested one (numastat), at allocation time and for the whole node. Only counters of the
// processors show the cost: instructions per cycle, cycles that waited, accesses to the other socket, memory traffic.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/diagnose/memory_signals.h"
#include "postproc/diagnose/numa_layout.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::numa_remote {
namespace {

constexpr std::string_view kAllocated = "numa_other_node";

/// Bytes that came from, or lie on, another node than that of the cpu, of all.
struct Placement {
  std::string metric;
  double remote = 0;
  double all = 0;
  std::string_view feature;           // the subject of the share
  std::string_view feature_of_bytes;  // and of the bytes
  std::vector<double> shares;         // per grid step, where it is a level

  /// Pages that the kernel gave out to all programs of the node, at the time of the allocation.
  [[nodiscard]] bool is_of_node() const { return metric == kAllocated; }
  [[nodiscard]] double share() const { return all > 0 ? remote / all : 0; }
};

double sum_of(const RuleContext& context, std::string_view metric, const std::string& instance = {}) {
  double sum = kNaN;
  for (const std::size_t channel : context.channels(metric, instance)) {
    for (const double value : context.telemetry.series(channel)) {
      if (!std::isnan(value)) sum = (std::isnan(sum) ? 0 : sum) + value;
    }
  }
  return sum;
}

double or_zero(double value) {
  return std::isnan(value) ? 0 : value;
}

/// Bytes of files that came into memory: they lie where memory was free, and are read once. The larger of the bytes
/// read and written by devices and of the growth of the page cache, which includes file servers, too.
double bytes_of_files(const RuleContext& context) {
  constexpr double kKibi = 1024;
  const double by_devices = or_zero(sum_of(context, "vmstat.pgpgin")) * kKibi +
                            or_zero(sum_of(context, "vmstat.nr_dirtied")) * context.page_bytes();
  double growth = 0;
  double most = kNaN;  // so that pages that come and go count once
  for (const std::size_t channel : context.channels("vmstat.nr_file_pages")) {
    for (const double pages : context.telemetry.series(channel)) {
      if (pages > most) growth += pages - most;
      most = std::fmax(most, pages);
    }
  }
  return std::max(by_devices, growth * context.page_bytes());
}

/// Whether pages that this node gave to cpus of another one are remote memory of the job: with a job that is bound, of
/// its own nodes; else of any.
bool gives_far(const NumaLayout& layout, int node, double least_distance) {
  if (layout.bound()) return layout.is_far(layout.open, node, least_distance);
  return std::any_of(layout.nodes.begin(), layout.nodes.end(),
                     [&](int other) { return layout.is_far(std::span(&other, 1), node, least_distance); });
}

/// Pages given out. For a bound job, its own nodes count for local pages, and only those; else all nodes count.
std::optional<Placement> allocated(const RuleContext& context, const NumaLayout& layout, double least_distance) {
  double local = kNaN;
  double remote = kNaN;
  for (const int node : layout.nodes) {
    const std::string name = "node" + std::to_string(node);
    const double to_own_cpus = sum_of(context, "numa_local_node", name);
    const double to_others = sum_of(context, "numa_other_node", name);
    if (std::isnan(to_own_cpus) || std::isnan(to_others)) continue;
    const bool own = std::find(layout.open.begin(), layout.open.end(), node) != layout.open.end();
    local = or_zero(local) + (own || !layout.bound() ? to_own_cpus : 0);
    // Interleaved pages are meant to lie on all nodes.
    const double meant = or_zero(sum_of(context, "numa_interleave_hit", name));
    remote = or_zero(remote) + (gives_far(layout, node, least_distance) ? std::max(0.0, to_others - meant) : 0);
  }
  if (std::isnan(local)) return std::nullopt;
  const double of_programs = std::max(0.0, remote * context.page_bytes() - bytes_of_files(context));
  return Placement{std::string(kAllocated),        of_programs, (local + remote) * context.page_bytes(),
                   "share of the pages allocated", "sum",       {}};
}

/// Bytes per grid step, here and elsewhere.
struct Levels {
  explicit Levels(std::size_t samples) : seen(samples, 0), elsewhere(samples, 0) {}

  void add(std::span<const double> bytes, bool remote) {
    for (std::size_t t = 0; t < seen.size(); ++t) {
      seen[t] += or_zero(bytes[t]);
      if (remote) elsewhere[t] += or_zero(bytes[t]);
    }
  }
  /// At the moment at which the job was seen to have most.
  [[nodiscard]] std::optional<Placement> placement(std::string_view metric) const {
    if (seen.empty()) return std::nullopt;
    const auto most = static_cast<std::size_t>(std::max_element(seen.begin(), seen.end()) - seen.begin());
    if (seen[most] <= 0) return std::nullopt;
    Placement found{std::string(metric),
                    elsewhere[most],
                    seen[most],
                    "share of the job's memory",
                    "at the job's highest memory use",
                    {}};
    for (std::size_t t = 0; t < seen.size(); ++t) found.shares.push_back(seen[t] > 0 ? elsewhere[t] / seen[t] : kNaN);
    return found;
  }

  std::vector<double> seen;
  std::vector<double> elsewhere;
};

/// Memory of the processes that are bound to nodes.
std::optional<Placement> resident(const RuleContext& context, const NumaLayout& layout, double least_distance) {
  constexpr std::string_view kMetric = "process.numa_bytes";
  constexpr double kEnough = 0.5;  // share of the job's memory: processes too large to be read are left out
  Levels levels(context.telemetry.samples);
  std::map<std::string, std::vector<int>> bound;
  for (const std::size_t channel : context.channels(kMetric)) {
    const std::string& instance = context.telemetry.channels[channel].instance;
    const auto node = numa_node_in(instance);
    if (!node) continue;
    const std::string process = instance.substr(0, instance.rfind('/'));
    const auto [known, fresh] = bound.try_emplace(process);
    if (fresh) known->second = nodes_bound_to(context, layout, process);
    if (known->second.empty()) continue;
    levels.add(context.telemetry.series(channel),
               layout.has_cpus(*node) && layout.is_far(known->second, *node, least_distance));
  }
  const auto held = context.total_if_measured("process.rss");
  if (!held) return std::nullopt;
  const auto most = std::max_element(levels.seen.begin(), levels.seen.end()) - levels.seen.begin();
  if (levels.seen.empty() ||
      !(levels.seen[static_cast<std::size_t>(most)] >= kEnough * (*held)[static_cast<std::size_t>(most)])) {
    return std::nullopt;
  }
  return levels.placement(kMetric);
}

/// Memory of a job that is bound as a whole.
std::optional<Placement> charged(const RuleContext& context, const NumaLayout& layout, double least_distance) {
  constexpr std::string_view kMetric = "memory_numa.anon";
  if (!layout.bound()) return std::nullopt;
  Levels levels(context.telemetry.samples);
  for (const std::size_t channel : context.channels(kMetric)) {
    const auto node = numa_node_in(context.telemetry.channels[channel].instance);
    if (!node) continue;
    levels.add(context.telemetry.series(channel),
               layout.has_cpus(*node) && layout.is_far(layout.open, *node, least_distance));
  }
  return levels.placement(kMetric);
}

std::optional<Placement> placement_of(const RuleContext& context, const NumaLayout& layout, double least_distance) {
  if (auto pages = resident(context, layout, least_distance)) return pages;
  if (auto pages = charged(context, layout, least_distance)) return pages;
  return allocated(context, layout, least_distance);
}

/// Pages that the kernel took from other nodes because a node was full; nothing if not counted.
struct Spill {
  int node = 0;           // that missed most
  double bytes = 0;       // meant for it, given out elsewhere
  double least_free = 0;  // NaN where not measured
  double cache = 0;       // page cache of the node at that time
};

std::optional<Spill> spill_of(const RuleContext& context, const NumaLayout& layout) {
  std::optional<Spill> most;
  for (const int node : layout.bound() ? layout.open : layout.nodes) {
    const double pages = sum_of(context, "numa_foreign", "node" + std::to_string(node));
    if (std::isnan(pages)) continue;
    if (!most || pages * context.page_bytes() > most->bytes) most = Spill{node, pages * context.page_bytes(), kNaN, 0};
  }
  if (!most) return most;
  const NumaMemory memory = numa_memory(context, most->node);
  for (std::size_t t = 0; t < memory.free.size(); ++t) {
    if (!(memory.free[t] >= most->least_free) && !std::isnan(memory.free[t])) {
      most->least_free = memory.free[t];
      most->cache = memory.cache.empty() ? kNaN : memory.cache[t];
    }
  }
  return most;
}

/// From the first to the last second in which so much was remote, if a long part of the run was clearly otherwise.
std::optional<Interval> remote_interval(const RuleContext& context, std::span<const double> shares, double least) {
  constexpr double kMostOutside = 0.5;  // share of `least`
  constexpr double kLeastInside = 0.8;  // share of the samples
  const std::vector<double> smooth = over_seconds(context, shares);
  Interval at;
  std::size_t inside = 0;
  std::size_t measured = 0;
  for (std::size_t t = 0; t < smooth.size(); ++t) {
    if (!(smooth[t] >= least)) continue;
    if (inside == 0) at.begin = t;
    at.end = t + 1;
    ++inside;
  }
  for (std::size_t t = at.begin; t < at.end; ++t) {
    if (!std::isnan(smooth[t])) ++measured;
  }
  const std::size_t shortest = context.steps(context.threshold("min_seconds"));
  if (at.length() < shortest || smooth.size() - at.length() < shortest) return std::nullopt;
  if (static_cast<double>(inside) < kLeastInside * static_cast<double>(measured)) return std::nullopt;
  const Interval excluded[] = {at};
  if (!(mean_outside(shares, excluded) <= kMostOutside * least)) return std::nullopt;
  return at;
}

/// When memory was remote: as the processors counted the accesses, else as the pages lay; else it is not known.
std::optional<Interval> when(const RuleContext& context, const Placement& placement) {
  const double least = context.threshold("min_share");
  if (const auto accesses = remote_share(context)) return remote_interval(context, accesses->values, least);
  return remote_interval(context, placement.shares, least);
}

const MemoryPicture* part_of(std::span<const MemoryPicture> picture, std::string_view metric_begin,
                             std::string_view metric_end) {
  const auto found = std::find_if(picture.begin(), picture.end(), [&](const MemoryPicture& each) {
    return each.signal.metric.starts_with(metric_begin) && each.signal.metric.ends_with(metric_end);
  });
  return found == picture.end() ? nullptr : &*found;
}

/// The job did the same with fewer instructions in each cycle, and waited in more of them: else another phase of the
/// program is the simpler cause.
std::optional<double> slowed(const RuleContext& context, std::span<const MemoryPicture> picture, Interval at) {
  constexpr double kMoreStalls = 0.05;
  constexpr double kSameWork = 0.25;
  const MemoryPicture* ipc = part_of(picture, "pmu.ipc", "");
  const MemoryPicture* stalls = part_of(picture, "pmu.", "stall_ratio");
  const MemoryPicture* accesses = part_of(picture, "pmu.remote_share", "");
  if (ipc == nullptr || stalls == nullptr || accesses == nullptr) return std::nullopt;
  if (!ipc->outside || !stalls->outside || *ipc->outside <= 0) return std::nullopt;
  const auto used = inside_outside(context, rate(context, "job.cpu_time", 1e-9, "cpus"), at, {});
  if (!used || std::abs(used->excess()) > kSameWork * used->outside) return std::nullopt;
  if (stalls->inside - *stalls->outside < kMoreStalls) return 0;
  return std::max(0.0, 1 - ipc->inside / *ipc->outside);
}

void set_cost(const RuleContext& context, Finding& finding, std::span<const MemoryPicture> picture, Interval at,
              bool whole) {
  finding.severity = Severity::notice;
  if (picture.empty()) {
    finding.impact.how = "not known: neither instructions per cycle nor memory traffic was counted";
    return;
  }
  const auto lost = whole ? std::nullopt : slowed(context, picture, at);
  if (!lost) {
    finding.impact.how =
        fmt::format("not known: only a run with local memory shows it; measured: {}", in_words(picture));
  } else if (*lost < context.threshold("min_slowed")) {
    finding.impact.how = fmt::format("none seen: {}", in_words(picture));
  } else {
    set_loss(context, finding, *lost * context.seconds(at.length()),
             fmt::format("at the usual instructions per cycle the same work takes {:.0f} % less time", 100 * *lost));
  }
}

Evidence fact(const RuleContext& context, std::string metric, std::string_view feature, double observed,
              std::string unit, TimeSpan span) {
  return {.metric = std::move(metric),
          .instance = "",
          .node = context.telemetry.node,
          .feature = std::string(feature),
          .observed = observed,
          .expected = 0,
          .unit = std::move(unit),
          .span = span,
          .detectors = {},
          .score = std::nullopt};
}

bool spilled(const std::optional<Spill>& spill, const Placement& placement) {
  constexpr double kMost = 0.5;  // share of the remote memory
  return spill && spill->bytes >= kMost * placement.remote;
}

std::string words_of(const Spill& spill) {
  return fmt::format(
      " Node {} was full: the kernel had to allocate {} on other nodes instead{}.", spill.node,
      quantity(spill.bytes, "bytes"),
      std::isnan(spill.least_free)
          ? ""
          : fmt::format(" (least free memory there {}{})", quantity(spill.least_free, "bytes"),
                        std::isnan(spill.cache) ? "" : ", page cache " + quantity(spill.cache, "bytes")));
}

/// Whether the nodes had room: only where next to nothing was allocated elsewhere for lack of it.
std::string room_in_words(const NumaLayout& layout, const Placement& placement, const std::optional<Spill>& spill) {
  constexpr double kNone = 0.01;  // share of the remote memory
  if (!spill) return " Whether the node was full was not measured.";
  if (spill->bytes >= kNone * placement.remote) {
    return fmt::format(
        " Node {} was full at times: the kernel had to allocate {} on other nodes. The rest was bound to "
        "another node, or the processes moved away from it.",
        spill->node, quantity(spill->bytes, "bytes"));
  }
  return fmt::format(
      " {} not full: the kernel never had to use another node, so the memory was bound to another node "
      "or the processes moved away from it.",
      layout.open.size() == 1 ? "That node was" : "Their own nodes were");
}

/// Why it is there, as far as that was seen.
std::string reason_of(const NumaLayout& layout, const Placement& placement, const std::optional<Spill>& spill) {
  if (spilled(spill, placement)) return words_of(*spill);
  if (layout.open.size() == 1) {
    return fmt::format(" The job's processes run only on node {}.{}", layout.open[0],
                       room_in_words(layout, placement, spill));
  }
  if (placement.metric == "process.numa_bytes") {
    return " Each process stayed on its node." + room_in_words(layout, placement, spill);
  }
  if (layout.open.empty()) return "";
  return fmt::format(" The job's processes may run on {} nodes and are not bound to one node.", layout.open.size());
}

RunnerUp runner_up_of(const RuleContext& context, const NumaLayout& layout, std::span<const MemoryPicture> picture) {
  const bool moving = std::any_of(context.found.begin(), context.found.end(),
                                  [](const Finding& found) { return found.id == "numa.unbound_migrating"; });
  if (moving)
    return {"numa.unbound_migrating", "both apply: first bind the processes to cpus, then the memory follows"};
  if (layout.open.size() == 1) return {"", "processes that move between nodes: these cannot leave their node"};
  const MemoryPicture* traffic = part_of(picture, "platform.", "");
  return {"mem.bw_saturated", traffic == nullptr
                                  ? "saturated memory bandwidth cannot be ruled out: it was not measured"
                                  : fmt::format("saturated memory bandwidth: the node moved {} on average",
                                                quantity(traffic->inside, "bytes/s"))};
}

/// With --membind, a full node ends the process: the lines differ for memory that did not fit, for memory displaced by
/// page cache, and for memory bound to another node.
JobValues values_of(const NumaLayout& layout, const Placement& placement, const std::optional<Spill>& spill) {
  JobValues values;
  if (!spilled(spill, placement)) {
    values["local"] = "local";
    if (layout.open.size() == 1) values["home"] = std::to_string(layout.open[0]);
    return values;
  }
  values["spilled"] = "yes";
  values["spread"] = "block:cyclic";
  if (spill->cache >= placement.remote) values["cache"] = "yes";
  return values;
}

Finding describe(const RuleContext& context, const NumaLayout& layout, const Placement& placement) {
  const auto spill = spill_of(context, layout);
  const auto part = when(context, placement);
  const Interval at = part.value_or(Interval{0, context.telemetry.samples});
  const std::vector<MemoryPicture> picture = memory_picture(context, at);
  Finding finding = finding_at(context, at, values_of(layout, placement, spill));
  if (part) finding.kind = FindingKind::anomaly;
  finding.confidence = layout.distances.empty() || placement.is_of_node() ? Confidence::possible : Confidence::likely;
  for (const int node : layout.open) finding.instances.push_back("node" + std::to_string(node));
  set_cost(context, finding, picture, at, !part);
  const TimeSpan span = finding.intervals.front();
  finding.evidence = {fact(context, placement.metric, placement.feature, placement.share(), "ratio", span),
                      fact(context, placement.metric, placement.feature_of_bytes, placement.remote, "bytes", span)};
  if (spill) {
    finding.evidence.push_back(fact(context, "numa_foreign", "sum", spill->bytes, "bytes", span));
    finding.evidence.back().instance = "node" + std::to_string(spill->node);
  }
  for (const MemoryPicture& each : picture) finding.evidence.push_back(evidence_of(context, each, at));
  finding.sentence = fmt::format(
      "{:.0f} % of the memory {} on {} ({}) {}.{}{}", 100 * placement.share(),
      placement.is_of_node() ? "allocated by programs" : "used by the job", context.telemetry.node,
      quantity(placement.remote, "bytes"),
      placement.is_of_node() ? "was allocated on another NUMA node than the cpus that requested it"
                             : "is on another NUMA node than the cpus that use it",
      reason_of(layout, placement, spill), picture.empty() ? "" : fmt::format(" At that time: {}.", in_words(picture)));
  finding.runner_up = runner_up_of(context, layout, picture);
  return finding;
}

std::vector<Finding> check(const RuleContext& context) {
  const NumaLayout layout = numa_layout(context);
  if (layout.nodes.size() < 2) return {};
  const auto placement = placement_of(context, layout, context.threshold("min_distance"));
  if (!placement) {
    const bool seen = !context.channels("process.numa_bytes").empty();
    throw Unavailable(seen ? "process.numa_bytes covers less than half of the job's memory, and numa_local_node and "
                             "numa_other_node were not measured"
                           : "not measured: numa_local_node and numa_other_node");
  }
  if (placement->share() < context.threshold("min_share")) return {};
  if (placement->remote < context.threshold("min_bytes") * 1e6) return {};
  return {describe(context, layout, *placement)};
}

const RegisteredRule kRule{{
    .id = "numa.mem_remote",
    .title = "Memory is on another NUMA node than the cpus that use it",
    .looks_for = "Pages of the job on a NUMA node whose cpus they may not use (process.numa_bytes, memory_numa.anon), "
                 "or pages that the kernel took from another node (numa_other_node, numa_foreign); and the processors' "
                 "counters at that time (pmu.*, platform.memory_*).",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::memory,
    .order = 32,
    .look_alikes = "numa.unbound_migrating,mem.bw_saturated,interleaved memory,page cache,parts of one socket",
    .proof = Proof::guest,
    .whole_machine = true,
    .thresholds = {{"min_share", 0.25, "ratio", "least part of the memory that is on another node"},
                   {"min_bytes", 200, "MB", "least such memory"},
                   {"min_distance", 16, "SLIT",
                    "least distance of the nodes according to the firmware; 10 is the own node, 20 another socket"},
                   {"min_seconds", 10, "s", "shortest part of a run that is compared with the rest of it"},
                   {"min_slowed", 0.05, "ratio", "least fall of the instructions per cycle that counts as cost"},
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {{"srun --cpu-bind=ldoms --mem-bind={local}   # keeps each rank and its memory on one node", "job"},
                    {"torchrun --numa-binding=node   # with a recent PyTorch", "torch", kOr},
                    {"numactl --cpunodebind={home} --membind={home}   # --preferred if the memory may not fit", "!job",
                     kOr},
                    {"srun --distribution={spread} --cpu-bind=ldoms   # ranks in turn on each NUMA node", "job", kOr},
                    {"numactl --interleave=all   # for a process larger than a node: spreads its memory", "spilled",
                     kOr}},
    .advice = {{"Run fewer ranks on each NUMA node, or on more nodes: their memory does not fit into it.", "spilled"},
               {"Read less through the page cache: it filled the node before the program asked for memory.", "cache"}},
    .admin_remedy = {{"slurm.conf: TaskPlugin=task/cgroup,task/affinity   # without it, --mem-bind has no effect",
                      "job"},
                     {"echo 1 > /proc/sys/vm/drop_caches   # changes the node once, only in the prolog of whole nodes: "
                      "page cache filled the node",
                      "cache"}},
    .verify = {.expected = "the share that this finding gives is below 10 %"},
    .sources = {"https://docs.kernel.org/admin-guide/numastat.html", "https://slurm.schedmd.com/srun.html#OPT_mem-bind",
                "https://docs.pytorch.org/docs/main/elastic/numa.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::numa_remote
