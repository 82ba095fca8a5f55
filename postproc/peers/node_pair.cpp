#include "postproc/peers/node_pair.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "hdf5schema/basics/not_measured.h"
#include "hdf5schema/basics/text.h"
#include "postproc/numerics/present_values.h"
#include "postproc/peers/peer_overlap.h"
#include "postproc/peers/peer_statistic.h"
#include "postproc/telemetry/metric_facts.h"

namespace reveal {
namespace {

constexpr auto kLess = PairMetric::Worse::less;
constexpr std::string_view kProcessor = "cpu.model";

constexpr double kBeyondErrors = 3;  // standard errors of the mean difference
constexpr double kPersistent = 0.5;  // share of the least difference, in each block that counts

// Clocks: nodes of one kind differ by a few percent, and a node with idle cores clocks lower.
constexpr double kClockFactor = 1.15;
// The worse node may be busier, up to this: it is slower, so it sleeps less.
constexpr double kBusier = 2;

constexpr std::array kPairMetrics = {
    PairMetric{.metric = "platform.busy_frequency",
               .rules = "cpu.thermal_throttle cpu.power_cap cpu.governor_powersave cpu.freq_oscillation",
               .model = kProcessor,
               .worse = kLess,
               .factor = kClockFactor,
               .difference = 150e6,
               .work = "cpu.utilization",
               .most_work = kBusier},
    PairMetric{.metric = "cpu.frequency",
               .rules = "cpu.thermal_throttle cpu.power_cap cpu.governor_powersave cpu.freq_oscillation",
               .model = kProcessor,
               .worse = kLess,
               .factor = kClockFactor,
               .difference = 150e6,
               .work = "cpu.utilization",
               .most_work = kBusier},
    PairMetric{.metric = "pmu.clock_ratio",
               .rules = "cpu.thermal_throttle cpu.power_cap cpu.governor_powersave cpu.freq_oscillation",
               .model = kProcessor,
               .worse = kLess,
               .factor = kClockFactor,
               .difference = 0.1,
               .work = "job.cpu_time",
               .most_work = kBusier},
    PairMetric{.metric = "gpu.sm_clock",
               .rules = "gpu.thermal_throttle gpu.power_cap gpu.hw_slowdown gpu.clocks_locked_low",
               .model = kGpuModels,
               .worse = kLess,
               .factor = kClockFactor,
               .difference = 100e6,
               .work = "gpu.utilization",
               .most_work = kBusier},
    PairMetric{.metric = "cpu.steal", .rules = "cpu.steal", .factor = 2, .difference = 0.05},
    PairMetric{.metric = "job.outsider_cpu",
               .rules = "cpu.outsider cpu.os_jitter node.noisy_neighbour",
               .factor = 2,
               .difference = 0.2},
    PairMetric{.metric = "cgroup.cpu_throttled_time", .rules = "cpu.cfs_throttled", .factor = 2, .difference = 0.05},
    PairMetric{.metric = "throttle.package_time", .rules = "cpu.thermal_throttle", .factor = 2, .difference = 0.02},
    PairMetric{.metric = "throttle.core_time", .rules = "cpu.thermal_throttle", .factor = 2, .difference = 0.05},
    PairMetric{.metric = "gpu.thermal_violation", .rules = "gpu.thermal_throttle", .factor = 2, .difference = 0.05},
    PairMetric{.metric = "job.wait_time",
               .rules = "cpu.oversubscribed cpu.affinity_too_narrow cpu.outsider cpu.cfs_throttled",
               .factor = 2,
               .difference = 0.2,
               .work = "job.threads"},
    PairMetric{.metric = "cgroup.memory_some",
               .rules = "mem.reclaim_thrash mem.swap_activity mem.leak_oom_risk",
               .factor = 2,
               .difference = 0.05},
    PairMetric{.metric = "pressure.memory_some",
               .rules = "mem.reclaim_thrash mem.swap_activity mem.leak_oom_risk",
               .factor = 2,
               .difference = 0.05},
    PairMetric{.metric = "vmstat.allocstall_movable",
               .rules = "mem.reclaim_thrash mem.swap_activity mem.leak_oom_risk",
               .factor = 3,
               .difference = 10},
    PairMetric{.metric = "vmstat.allocstall_normal",
               .rules = "mem.reclaim_thrash mem.swap_activity mem.leak_oom_risk",
               .factor = 3,
               .difference = 10},
    PairMetric{.metric = "vmstat.pswpin", .rules = "mem.swap_activity", .factor = 3, .difference = 50},
    PairMetric{.metric = "tcp.RetransSegs",
               .rules = "net.tcp_retrans_fault net.nic_rx_drop net.congestion irq.softirq_saturation",
               .per = "tcp.OutSegs",
               .name = "tcp.retransmitted_share",
               .factor = 3,
               .difference = 0.01,
               .least_per = 100,
               .unit = "ratio"},
    PairMetric{.metric = "disk.read_time",
               .rules = "io.local_disk_saturated io.slow_reads mem.writeback_stall",
               .per = "disk.reads",
               .name = "disk.time_per_read",
               .factor = 3,
               .difference = 2e6,
               .work = "disk.reads disk.read_bytes",
               .least_work = 0.5,
               .most_work = 2,
               .least_per = 5,
               .scale = 1e9,
               .unit = "ns"},
    PairMetric{.metric = "disk.write_time",
               .rules = "io.local_disk_saturated mem.writeback_stall",
               .per = "disk.writes",
               .name = "disk.time_per_write",
               .factor = 3,
               .difference = 5e6,
               .work = "disk.writes disk.write_bytes",
               .least_work = 0.5,
               .most_work = 2,
               .least_per = 5,
               .scale = 1e9,
               .unit = "ns"},
    PairMetric{.metric = "nfs.round_trip_time",
               .rules = "io.nfs_slow_server",
               .per = "nfs.requests",
               .name = "nfs.time_per_request",
               .factor = 3,
               .difference = 2e6,
               .work = "nfs.requests",
               .least_work = 0.5,
               .most_work = 2,
               .least_per = 5,
               .scale = 1e9,
               .unit = "ns"},
    PairMetric{.metric = "pmu.stall_ratio",
               .rules = "numa.mem_remote mem.bw_saturated",
               .model = kProcessor,
               .factor = 1.25,
               .difference = 0.1,
               .work = "job.cpu_time"},
    PairMetric{.metric = "pmu.remote_share",
               .rules = "numa.mem_remote numa.unbound_migrating numa.single_node_pileup",
               .model = kProcessor,
               .factor = 2,
               .difference = 0.2,
               .work = "job.cpu_time"},
};

constexpr std::string_view kFlaw = "cpu.vulnerability.";
constexpr std::string_view kMitigations = "kernel.mitigations";

struct Setting {
  const char* pattern;
  SettingWeight weight = SettingWeight::may_slow;
};

// Names, addresses and moments differ between any two nodes; these settings decide how fast a node is.
constexpr Setting kSettings[] = {
    {"cpu.boost", SettingWeight::slows},
    {"cpu.energy_preference", SettingWeight::slows},
    {"cpu.frequency_driver"},
    {"cpu.frequency_limit", SettingWeight::slows},
    {"cpu.governor", SettingWeight::slows},
    {"cpu.microcode"},
    {"cpu.model"},
    {"cpu.most_performance", SettingWeight::slows},
    {"cpu.no_turbo", SettingWeight::slows},
    {"cpu.power_limit.*", SettingWeight::slows},
    {"cpu.smt"},
    {"cpu.vulnerability.*", SettingWeight::slows},
    {"firmware.*"},
    {"gpu.models"},
    {"gpu_driver.*"},
    {"irq.irqbalance"},
    {"kernel.clocksource", SettingWeight::slows},
    {"kernel.mitigations", SettingWeight::slows},
    {"kernel.numa_balancing"},
    {"kernel.release"},
    {"machine.model"},
    {"net.*.mtu"},
    {"net.tcp_congestion_control"},
    {"numa.*.hugepages-1048576kB"},
    {"numa.nodes", SettingWeight::slows},
    {"rdma.*.rate"},
    {"rdma.*.state"},
    {"vm.dirty_*"},
    {"vm.hugepages-*"},
    {"vm.swappiness"},
    {"vm.transparent_hugepage*"},
    {"vm.zone_reclaim_mode"},
};

/// Levels of one node, in the blocks that both nodes have in common.
class Levels {
 public:
  Levels(const NodeProfile& node, const PeerOverlap& overlap) : node_(node), overlap_(overlap) {}

  /// Empty where it was not measured.
  [[nodiscard]] std::vector<double> blocks(std::string_view metric) const {
    const ProfileChannel* channel = node_.find(metric);
    if (channel == nullptr && !node_.is_zero(metric)) return {};
    std::vector<double> values;
    fold(node_, channel, overlap_, values);
    return values;
  }
  [[nodiscard]] double mean(std::string_view metric) const { return mean_of(blocks(metric)); }

 private:
  const NodeProfile& node_;
  const PeerOverlap& overlap_;
};

std::vector<double> quotients(const PairMetric& metric, const Levels& levels) {
  std::vector<double> values = levels.blocks(metric.metric);
  if (metric.per.empty()) return values;
  const std::vector<double> per = levels.blocks(metric.per);
  if (per.size() != values.size()) return {};
  for (std::size_t b = 0; b < values.size(); ++b) {
    values[b] = per[b] >= metric.least_per && per[b] > 0 ? metric.scale * values[b] / per[b] : kNaN;
  }
  return values;
}

bool does_like_work(const PairMetric& metric, const Levels& worse, const Levels& better) {
  std::string_view rest = metric.work;
  for (std::string_view work = next_word(rest); !work.empty(); work = next_word(rest)) {
    const double part = worse.mean(work) / better.mean(work);
    if (!(part >= metric.least_work && part <= metric.most_work)) return false;  // also where it was not measured
  }
  return true;
}

/// Whether the first is the larger by enough, nearly always, and by more than the difference wanders by itself.
bool is_apart(const PairMetric& metric, const std::vector<double>& larger, const std::vector<double>& smaller,
              const EffectiveRule& rule, double block_seconds) {
  double sum = 0;
  double squares = 0;
  double n = 0;
  double apart = 0;
  for (std::size_t b = 0; b < larger.size(); ++b) {
    const double away = larger[b] - smaller[b];
    if (std::isnan(away)) continue;
    n += 1;
    sum += away;
    squares += away * away;
    apart += away >= kPersistent * metric.difference ? 1 : 0;
  }
  const double least_blocks = std::max(static_cast<double>(kLeastBlocks), static_cast<double>(larger.size()) / 2);
  if (n < least_blocks || n * block_seconds < rule.threshold("min_seconds")) return false;
  const double mean = sum / n;
  const double error = std::sqrt(std::max(0.0, squares - n * mean * mean) / (n - 1) / n);
  return mean >= metric.difference && mean >= kBeyondErrors * error && apart >= rule.threshold("min_time") * n;
}

/// Null where neither has more than 0, or they mean different things by the name.
const ProfileChannel* shared_channel(const NodeProfile& first, const NodeProfile& second, std::string_view metric) {
  const ProfileChannel* ours = first.find(metric);
  const ProfileChannel* theirs = second.find(metric);
  if (ours == nullptr || theirs == nullptr) return ours != nullptr ? ours : theirs;
  return ours->unit == theirs->unit ? ours : nullptr;
}

}  // namespace

std::span<const PairMetric> pair_metrics() {
  return kPairMetrics;
}

const PairMetric* pair_metric(std::string_view metric) {
  const auto found = std::find_if(kPairMetrics.begin(), kPairMetrics.end(),
                                  [metric](const PairMetric& one) { return one.metric == metric; });
  return found == kPairMetrics.end() ? nullptr : &*found;
}

double value_of(const PairMetric& metric, const std::function<double(std::string_view)>& level) {
  const double value = level(metric.metric);
  if (metric.per.empty()) return value;
  const double per = level(metric.per);
  return per > 0 ? metric.scale * value / per : kNaN;
}

std::vector<PairDifference> pair_differences(const NodeProfile& first, const NodeProfile& second,
                                             const EffectiveRule& rule) {
  const PeerOverlap overlap = overlap_of({&first, &second}, {0, 1});
  std::vector<PairDifference> differences;
  if (overlap.members.size() < 2 || overlap.blocks() < kLeastBlocks) return differences;
  const Levels ours(first, overlap);
  const Levels theirs(second, overlap);
  const double block_seconds = static_cast<double>(overlap.block_ns) * 1e-9;
  for (const PairMetric& metric : kPairMetrics) {
    const ProfileChannel* channel = shared_channel(first, second, metric.metric);
    if (channel == nullptr) continue;
    const std::vector<double> a = quotients(metric, ours);
    const std::vector<double> b = quotients(metric, theirs);
    if (a.empty() || a.size() != b.size()) continue;
    const auto mean = [&](const Levels& levels) {
      return value_of(metric, [&](std::string_view name) { return levels.mean(name); });
    };
    const double value_a = mean(ours);
    const double value_b = mean(theirs);
    const bool first_is_larger = value_a > value_b;
    const double larger = first_is_larger ? value_a : value_b;
    const double smaller = first_is_larger ? value_b : value_a;
    if (std::isnan(larger - smaller) || larger < metric.factor * smaller) continue;
    if (!is_apart(metric, first_is_larger ? a : b, first_is_larger ? b : a, rule, block_seconds)) continue;
    const bool first_is_worse = first_is_larger == (metric.worse == PairMetric::Worse::more);
    if (!does_like_work(metric, first_is_worse ? ours : theirs, first_is_worse ? theirs : ours)) continue;
    const bool reported = std::any_of(differences.begin(), differences.end(), [&](const PairDifference& one) {
      return compared_words(one.metric->metric) == compared_words(metric.metric);  // another counter of the same
    });
    if (reported) continue;
    differences.push_back({.metric = &metric,
                           .subsystem = channel->subsystem,
                           .unit = metric.unit.empty() ? channel->unit.str() : std::string(metric.unit),
                           .first = value_a,
                           .second = value_b,
                           .first_is_worse = first_is_worse});
  }
  return differences;
}

SettingWeight weight_of_setting(const std::string& key) {
  const auto found = std::find_if(std::begin(kSettings), std::end(kSettings),
                                  [&](const Setting& one) { return ::fnmatch(one.pattern, key.c_str(), 0) == 0; });
  return found == std::end(kSettings) ? SettingWeight::none : found->weight;
}

bool follows_from(std::string_view key, std::string_view other) noexcept {
  return key.starts_with(kFlaw) && other == kMitigations;
}

bool is_same_setting(std::string_view key, std::string_view value, std::string_view other) {
  constexpr double kLessThanAModule = 0.01;
  if (value == other || key != kMemorySetting) return value == other;
  const auto one = parse_int(value);
  const auto two = parse_int(other);
  if (!one || !two) return false;
  const auto [less, more] = std::minmax({static_cast<double>(*one), static_cast<double>(*two)});
  return more - less < kLessThanAModule * more;
}

std::vector<PairSetting> pair_settings(const NodeProfile& first, const NodeProfile& second) {
  std::vector<PairSetting> settings;
  for (const auto& [key, value] : first.facts) {
    const auto other = std::lower_bound(second.facts.begin(), second.facts.end(), key,
                                        [](const auto& fact, const std::string& name) { return fact.first < name; });
    if (other == second.facts.end() || other->first != key || other->second == value) continue;
    if (weight_of_setting(key) != SettingWeight::none) settings.push_back({key, value, other->second});
  }
  const bool option_differs = std::any_of(settings.begin(), settings.end(),
                                          [](const PairSetting& setting) { return setting.key == kMitigations; });
  if (option_differs) {
    std::erase_if(settings, [](const PairSetting& setting) { return follows_from(setting.key, kMitigations); });
  }
  return settings;
}

}  // namespace reveal
