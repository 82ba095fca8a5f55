#include "postproc/diagnose/causal_links.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "postproc/diagnose/rule.h"
#include "postproc/words/lists.h"

namespace reveal {
namespace {

constexpr std::string_view kOthersWait = "other nodes that waited for this one";
constexpr std::string_view kSlowSteps = "training steps that took longer";
constexpr std::string_view kLateRank = "a rank for which the others waited";
constexpr std::string_view kHang = "ranks that waited until the job ended";
constexpr std::string_view kStall = "ranks that all stood still";
constexpr std::string_view kClockOfInterrupts = "cpu clocks that changed with the interrupts";

// Hardware and configuration first, then the kernel's work, then their effects on the job.
constexpr CausalLink kSingleLinks[] = {
    {"mem.hugepages_inconsistent", "mem.hugepages_reserved_idle", ""},
    {"mem.hugepages_inconsistent", "node.differs", ""},
    // Only with the node for which the others wait it is worth acting on.
    {"node.config_drift", "node.straggler", kOthersWait, true},
    {"ib.link_errors", "ib.link_degraded", "a link that came back slower", false, true},
    {"ib.link_errors", "rdma.retries", "RDMA requests that were repeated"},
    {"ib.link_degraded", "ib.congestion_xmit_wait", "ports that had to wait for this link"},
    {"net.pause_congestion", "rdma.retries", "RDMA requests that were repeated"},
    {"numa.unbound_migrating", "numa.mem_remote", "memory on the nodes that the ranks had left"},
    {"mem.ecc_host", "cpu.smi_noise", "firmware interrupts that report the memory errors"},
    {"irq.remote_numa", "irq.softirq_saturation", "a cpu that could not handle its packets in time"},
    {"irq.imbalance", "irq.softirq_saturation", "a cpu that could not handle its packets in time"},
    {"irq.imbalance", "net.tcp_retrans_fault", "lost packets that TCP sent again"},
    {"irq.softirq_saturation", "net.tcp_retrans_fault", "lost packets that TCP sent again"},
    {"irq.softirq_saturation", "net.nic_rx_drop", "packets that the interface dropped"},
    {"net.nic_rx_drop", "net.tcp_retrans_fault", "lost packets that TCP sent again"},
    {"net.congestion", "net.tcp_retrans_fault", ""},
    {"mem.leak_oom_risk", "mem.reclaim_thrash", "a page cache that was too small for the files", true},
    {"mem.leak_oom_risk", "mem.swap_activity", "memory that was swapped out", true},
    {"mem.leak_oom_risk", "numa.single_node_pileup", "a NUMA node without free memory", true},
    {"mem.leak_oom_risk", "mem.oom_killed", "a process that the kernel killed for memory", true},
    {"mem.reclaim_thrash", "mem.swap_activity", "memory that was swapped out"},
    {"mem.swap_activity", "mem.oom_killed", "a process that the kernel killed for memory"},
    {"mem.swap_activity", "io.local_disk_saturated", "a disk busy with swapping"},
    {"mem.swap_activity", "io.slow_reads", "slow reads beside the swapping"},
    {"mem.reclaim_thrash", "io.local_disk_saturated", "a disk busy with reading the same files again"},
    {"mem.reclaim_thrash", "io.slow_reads", "slow reads of the same files"},
    // Writing back begins before writers are made to wait, and goes on until the pages are clean.
    {"mem.writeback_stall", "io.local_disk_saturated", "a disk busy with the written data", false, false, 30, 30},
    {"mem.writeback_stall", "io.slow_reads", "slow reads beside the writing"},
    {"mem.writeback_stall", "cpu.outsider", "processes that took the job's cpus while they wrote"},
    {"mem.writeback_stall", "cpu.os_jitter", "threads of the kernel that wrote the pages back on the job's cpus"},
    {"io.local_disk_saturated", "io.slow_reads", "slow reads"},
    // How restless a clock is shows in the three seconds around each moment, so it seems to begin before its cause;
    // heat is read every 5 s.
    // No words: the cause's sentence says that the cpus were slowed down.
    {"cpu.thermal_throttle", "cpu.freq_oscillation", "", false, false, 8, 5},
    {"cpu.power_cap", "cpu.freq_oscillation", "cpu clocks that fell", false, false, 4, 5},
    // The governor follows the load, which waits and interrupts change: section 5 of https://arxiv.org/abs/2510.26008
    {"irq.imbalance", "cpu.freq_oscillation", kClockOfInterrupts, false, false, 4, 5},
    {"irq.softirq_saturation", "cpu.freq_oscillation", kClockOfInterrupts, false, false, 4, 5},
    {"io.local_disk_saturated", "cpu.freq_oscillation", "cpu clocks that changed with the waits for the disk", false,
     false, 4, 5},
    {"io.slow_reads", "cpu.freq_oscillation", "cpu clocks that changed with the waits for reads", false, false, 4, 5},
    {"node.noisy_neighbour", "cpu.freq_oscillation", "cpu clocks that changed with the waits of the job", false, false,
     4, 5},
    {"ib.link_errors", "node.straggler", kOthersWait},
    {"ib.link_degraded", "node.straggler", kOthersWait},
    {"ib.congestion_xmit_wait", "node.straggler", kOthersWait},
    {"rdma.retries", "node.straggler", kOthersWait},
    {"net.pause_congestion", "node.straggler", kOthersWait},
    {"gpu.ecc_remap", "gpu.xid", "an error that the driver reported", false, true},
    {"gpu.thermal_throttle", "node.straggler", kOthersWait},
    {"gpu.hw_slowdown", "node.straggler", kOthersWait},
    {.cause = "gpu.power_cap", .effect = "node.straggler", .words = kOthersWait, .alone = true},
    {.cause = "gpu.clocks_locked_low", .effect = "node.straggler", .words = kOthersWait, .alone = true},
    {"gpu.starved_input", "node.straggler", kOthersWait},
    {"io.local_disk_saturated", "gpu.starved_io", "GPUs that waited for their data"},
    {"io.nfs_slow_server", "gpu.starved_io", "GPUs that waited for their data"},
    {"io.slow_reads", "gpu.starved_io", "GPUs that waited for their data"},
    {"io.metadata_storm", "gpu.starved_io", "GPUs that waited for their data"},
    {"net.tcp_retrans_fault", "gpu.starved_comm", "GPUs that waited for other ranks"},
    {"net.congestion", "gpu.starved_comm", "GPUs that waited for other ranks"},
    {"net.pause_congestion", "gpu.starved_comm", "GPUs that waited for other ranks"},
    {"irq.softirq_saturation", "gpu.starved_comm", "GPUs that waited for other ranks"},
    {"nccl.socket_fallback", "gpu.starved_comm", "GPUs that waited for other ranks"},
    {"ib.link_degraded", "gpu.starved_comm", "GPUs that waited for other ranks"},
    {"ib.congestion_xmit_wait", "gpu.starved_comm", "GPUs that waited for other ranks"},
    {"rdma.retries", "gpu.starved_comm", "GPUs that waited for other ranks"},
    {"cpu.outsider", "gpu.starved_input", "GPUs that waited for their data"},
    {"cpu.oversubscribed", "gpu.starved_input", "GPUs that waited for their data"},
    {"cpu.cfs_throttled", "node.straggler", kOthersWait},
    {"cpu.thermal_throttle", "node.straggler", kOthersWait},
    {"cpu.outsider", "node.straggler", kOthersWait},
    {"cpu.steal", "node.straggler", kOthersWait},
    {"mem.swap_activity", "node.straggler", kOthersWait},
    {"io.local_disk_saturated", "node.straggler", kOthersWait},
    {.cause = "io.slow_reads", .effect = "node.straggler", .words = kOthersWait, .alone = true},
    {.cause = "io.nfs_slow_server", .effect = "node.straggler", .words = kOthersWait, .alone = true},
    {"mem.reclaim_thrash", "node.straggler", kOthersWait},
    {"mem.writeback_stall", "node.straggler", kOthersWait},
    {"cpu.os_jitter", "node.straggler", kOthersWait},
    {"node.noisy_neighbour", "node.straggler", kOthersWait},
    {"irq.softirq_saturation", "node.straggler", kOthersWait},
    {.cause = "cpu.governor_powersave", .effect = "node.straggler", .words = kOthersWait, .alone = true},
    {.cause = "cpu.power_cap", .effect = "node.straggler", .words = kOthersWait, .alone = true},
    {.cause = "numa.mem_remote", .effect = "node.straggler", .words = kOthersWait, .alone = true},
    {.cause = "pcie.link_downtrained", .effect = "node.straggler", .words = kOthersWait, .alone = true},
    // The others notice at their next collective, and wait for the rest of the job.
    {"mem.oom_killed", "stack.hang", kHang, true, false, 30, 86'400},
    {"gpu.xid", "stack.hang", kHang, true, false, 30, 86'400},
    {"job.stopped", "stack.hang", kHang},
    {"job.stopped", "stack.stall", kStall},
    {"cpu.cfs_throttled", "stack.stall", kStall},
    {"mem.swap_activity", "stack.stall", kStall},
    {"mem.reclaim_thrash", "stack.stall", kStall},
    {"mem.writeback_stall", "stack.stall", kStall},
    {"io.nfs_slow_server", "stack.stall", kStall},
    {"io.slow_reads", "stack.stall", kStall},
    {"stack.import_storm", "stack.stall", kStall},
};

// Causes of a rank that is late, and of steps that take longer.
constexpr std::string_view kDelays[] = {
    "job.stopped",           "cpu.outsider",       "cpu.cfs_throttled",       "cpu.thermal_throttle",
    "cpu.power_cap",         "cpu.steal",          "cpu.oversubscribed",      "cpu.os_jitter",
    "mem.swap_activity",     "mem.reclaim_thrash", "mem.writeback_stall",     "io.local_disk_saturated",
    "io.slow_reads",         "io.nfs_slow_server", "io.metadata_storm",       "irq.softirq_saturation",
    "net.tcp_retrans_fault", "net.congestion",     "net.nic_rx_drop",         "net.pause_congestion",
    "ib.link_errors",        "ib.link_degraded",   "ib.congestion_xmit_wait", "rdma.retries",
    "gpu.thermal_throttle",  "gpu.hw_slowdown",    "gpu.power_cap",           "gpu.starved_input",
    "gpu.starved_io",        "node.straggler",     "stack.import_storm",
};

constexpr auto kLinks = [] {
  std::array<CausalLink, std::size(kSingleLinks) + 2 * std::size(kDelays) + 1> links;
  auto* next = std::copy(std::begin(kSingleLinks), std::end(kSingleLinks), links.begin());
  for (const std::string_view cause : kDelays) *next++ = {cause, "stack.slow_steps", kSlowSteps};
  for (const std::string_view cause : kDelays) *next++ = {cause, "stack.late_rank", kLateRank};
  *next = {"stack.slow_steps", "stack.late_rank", ""};  // both name the rank
  return links;
}();

constexpr std::int64_t kOnset = 10 * kSecond;
constexpr double kExplainedShare = 0.8;

std::int64_t onset_of(const Finding& finding) {
  std::int64_t onset = std::numeric_limits<std::int64_t>::max();
  for (const TimeSpan& span : finding.intervals) onset = std::min(onset, span.begin_utc_ns);
  return onset;
}

TimeSpan within_reach(const CausalLink& link, const TimeSpan& span) {
  return {span.begin_utc_ns - static_cast<std::int64_t>(link.before * kSecond),
          span.end_utc_ns + static_cast<std::int64_t>(link.after * kSecond)};
}

bool contains(const TimeSpan& span, std::int64_t time) {
  return span.begin_utc_ns <= time && time <= span.end_utc_ns;
}

/// Part of the span within reach of the cause; of a moment all or nothing.
double covered(const TimeSpan& span, const std::vector<TimeSpan>& reach) {
  const std::int64_t length = std::max<std::int64_t>(span.end_utc_ns - span.begin_utc_ns, 1);
  std::int64_t inside = 0;
  for (const TimeSpan& theirs : reach) {
    const auto begin = std::max(span.begin_utc_ns, theirs.begin_utc_ns);
    const auto end = std::min(span.begin_utc_ns + length, theirs.end_utc_ns);
    inside += std::max<std::int64_t>(0, end - begin);
  }
  return static_cast<double>(inside) / static_cast<double>(length);
}

bool is_covered(const Finding& effect, const std::vector<TimeSpan>& reach) {
  double share = 0;
  for (const TimeSpan& span : effect.intervals) share += covered(span, reach);
  return !effect.intervals.empty() && share >= kExplainedShare * static_cast<double>(effect.intervals.size());
}

/// The findings by rule and node, and whether they are within reach of a link.
class Found {
 public:
  explicit Found(std::span<const Finding> findings) {
    for (const Finding& finding : findings) {
      if (finding.intervals.empty()) continue;
      for (const std::string& node : finding.nodes) at_[{finding.id, node}].push_back(&finding);
    }
  }

  /// Returns the cause that began last: it is the nearest to the effect. Null if there is none.
  [[nodiscard]] const Finding* cause_of(const Finding& effect) {
    const Finding* nearest = nullptr;
    for (const CausalLink& link : kLinks) {
      if (link.effect != effect.id) continue;
      for (const std::string& node : effect.nodes) {
        const Finding* cause = cause_at(link, node, effect);
        if (cause != nullptr && (nearest == nullptr || onset_of(*cause) > onset_of(*nearest))) nearest = cause;
      }
    }
    return nearest;
  }

 private:
  using Place = std::pair<std::string_view, std::string_view>;  // rule and node

  const Finding* cause_at(const CausalLink& link, const std::string& node, const Finding& effect) {
    const auto causes = at_.find({link.cause, node});
    if (causes == at_.end()) return nullptr;
    const std::vector<TimeSpan>& reach = reach_of(link, node, causes->second);
    if (!is_covered(effect, reach) || (link.alone && others_have(link, node, effect))) return nullptr;
    const std::int64_t onset = onset_of(effect);
    const auto around = std::find_if(reach.begin(), reach.end(), [&](TimeSpan span) { return contains(span, onset); });
    if (around == reach.end() || (!link.late && !began_soon(link, *around, node))) return nullptr;
    const Finding* nearest = nullptr;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();  // from its beginning to the onset of the effect
    for (const Finding* cause : causes->second) {
      if (!may_be(link, *cause, effect)) continue;
      for (const TimeSpan& span : cause->intervals) {
        const std::int64_t distance = std::abs(onset - span.begin_utc_ns);
        if (span.begin_utc_ns > around->end_utc_ns || span.end_utc_ns < around->begin_utc_ns || distance >= least)
          continue;
        least = distance;
        nearest = cause;
      }
    }
    return nearest;
  }

  /// Whether another node has the cause, too, while the effect lasts.
  bool others_have(const CausalLink& link, std::string_view node, const Finding& effect) {
    return std::any_of(at_.lower_bound({link.cause, ""}), at_.end(), [&](const auto& one) {
      const auto& [place, causes] = one;
      return place.first == link.cause && place.second != node &&
             is_covered(effect, reach_of(link, place.second, causes));
    });
  }

  static bool may_be(const CausalLink& link, const Finding& cause, const Finding& effect) {
    if (link.late && cause.severity < Severity::warning) return false;
    return !link.same_device ||
           std::find_first_of(cause.instances.begin(), cause.instances.end(), effect.instances.begin(),
                              effect.instances.end()) != cause.instances.end();
  }

  /// Whether the effect's rule found something on the node soon after the cause began: findings that come and go later
  /// belong to it.
  [[nodiscard]] bool began_soon(const CausalLink& link, const TimeSpan& reach, std::string_view node) const {
    const std::int64_t began = reach.begin_utc_ns + static_cast<std::int64_t>(link.before * kSecond);
    const auto& effects = at_.at({link.effect, node});
    return std::any_of(effects.begin(), effects.end(), [&](const Finding* one) {
      return onset_of(*one) >= reach.begin_utc_ns && onset_of(*one) - began <= kOnset;
    });
  }

  const std::vector<TimeSpan>& reach_of(const CausalLink& link, std::string_view node,
                                        const std::vector<const Finding*>& causes) {
    const auto [at, is_new] = reach_.try_emplace({&link, node});
    if (!is_new) return at->second;
    std::vector<TimeSpan> spans;
    for (const Finding* cause : causes) {
      if (link.late && cause->severity < Severity::warning) continue;
      for (const TimeSpan& span : cause->intervals) spans.push_back(within_reach(link, span));
    }
    at->second = united(std::move(spans));
    return at->second;
  }

  std::map<Place, std::vector<const Finding*>> at_;
  std::map<std::pair<const CausalLink*, std::string_view>, std::vector<TimeSpan>> reach_;
};

std::string_view words_of(const Finding& effect) {
  const auto link = std::find_if(std::begin(kLinks), std::end(kLinks), [&](const CausalLink& one) {
    return one.cause == effect.caused_by && one.effect == effect.id;
  });
  return link == std::end(kLinks) ? std::string_view() : link->words;
}

/// The chain costs at least as much as its dearest part; an upper bound replaces no estimate. The user's feedback on a
/// finding is also on its consequences, unless one of them is critical.
void take_over(const Finding& effect, Finding& first) {
  if (first.feedback.empty() || effect.severity == Severity::critical) {
    first.severity = std::max(first.severity, effect.severity);
  }
  if (effect.impact.seconds.value_or(0) <= first.impact.seconds.value_or(0)) return;
  if (effect.impact.at_most && first.impact.seconds && !first.impact.at_most) return;
  first.impact = effect.impact;
  first.impact.how = fmt::format("cost of the consequence {}: {}", effect.id, effect.impact.how);
}

}  // namespace

std::span<const CausalLink> causal_links() noexcept {
  return kLinks;
}

bool is_cause_of(std::string_view cause, std::string_view effect) noexcept {
  return std::any_of(std::begin(kLinks), std::end(kLinks),
                     [&](const CausalLink& link) { return link.cause == cause && link.effect == effect; });
}

std::vector<const Finding*> effects_of(const Finding& cause, std::span<const Finding> findings) {
  const bool is_first = cause.first_cause.empty();
  std::vector<const Finding*> effects;
  for (const Finding& finding : findings) {
    const bool follows = is_first ? finding.first_cause == cause.id
                                  : finding.caused_by == cause.id && finding.first_cause == cause.first_cause;
    if (follows && &finding != &cause) effects.push_back(&finding);
  }
  std::stable_sort(effects.begin(), effects.end(),
                   [](const Finding* a, const Finding* b) { return onset_of(*a) < onset_of(*b); });
  return effects;
}

void find_causes(std::vector<Finding>& findings) {
  Found found(findings);
  std::map<const Finding*, const Finding*> cause;
  for (const Finding& effect : findings) {
    if (const Finding* nearest = found.cause_of(effect)) cause[&effect] = nearest;
  }
  for (Finding& effect : findings) {
    const auto nearest = cause.find(&effect);
    if (nearest == cause.end()) continue;
    const Finding* first = nearest->second;
    for (auto next = cause.find(first); next != cause.end(); next = cause.find(first)) first = next->second;
    effect.caused_by = nearest->second->id;
    effect.first_cause = first->id;
  }
}

void describe_chains(std::vector<Finding>& findings) {
  for (Finding& first : findings) {
    if (!first.first_cause.empty()) continue;
    std::vector<std::string> chain;
    for (const Finding* effect : effects_of(first, findings)) {
      const std::string words(words_of(*effect));
      const bool is_said = words.empty() || std::find(chain.begin(), chain.end(), words) != chain.end();
      if (!is_said) chain.push_back(words);
      take_over(*effect, first);
    }
    if (chain.empty()) continue;
    const std::string_view led = is_only_possible(first) ? "may have led" : "led";
    first.sentence += fmt::format(" This {} to {}.", led, joined(chain, ", then "));
  }
}

}  // namespace reveal
