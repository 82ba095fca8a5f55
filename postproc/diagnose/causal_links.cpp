#include "postproc/diagnose/causal_links.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "postproc/words/lists.h"

namespace reveal {
namespace {

// Hardware and configuration first, then the kernel's work, then what the job sees of it.
constexpr CausalLink kLinks[] = {
    {"cpu.thermal_throttle", "cpu.freq_oscillation", "cpu clocks that fell"},
    {"cpu.power_cap", "cpu.freq_oscillation", "cpu clocks that fell"},
    {"mem.hugepages_inconsistent", "mem.hugepages_reserved_idle", "huge pages that nobody uses"},
    {"mem.hugepages_inconsistent", "node.differs", "a node that looks unlike the others"},
    {"mem.ecc_host", "cpu.smi_noise", "firmware interrupts that report the memory errors"},
    {"irq.remote_numa", "irq.softirq_saturation", "a cpu that could not handle its packets in time"},
    {"irq.imbalance", "irq.softirq_saturation", "a cpu that could not handle its packets in time"},
    {"irq.imbalance", "net.tcp_retrans_fault", "lost packets that TCP sent again", true},
    {"irq.softirq_saturation", "net.tcp_retrans_fault", "lost packets that TCP sent again", true},
    {"irq.softirq_saturation", "net.nic_rx_drop", "packets that the interface dropped"},
    {"net.nic_rx_drop", "net.tcp_retrans_fault", "lost packets that TCP sent again", true},
    {"irq.imbalance", "cpu.freq_oscillation", "cpu clocks that changed with the interrupts"},
    {"irq.softirq_saturation", "cpu.freq_oscillation", "cpu clocks that changed with the interrupts"},
    {"mem.leak_oom_risk", "mem.reclaim_thrash", "a page cache that was too small for the files", false, true},
    {"mem.leak_oom_risk", "mem.swap_activity", "memory that was swapped out", false, true},
    {"mem.leak_oom_risk", "mem.oom_killed", "a process that the kernel killed for memory", false, true},
    {"mem.reclaim_thrash", "mem.swap_activity", "memory that was swapped out"},
    {"mem.swap_activity", "mem.oom_killed", "a process that the kernel killed for memory"},
    {"mem.swap_activity", "io.local_disk_saturated", "a disk busy with swapping"},
    {"mem.swap_activity", "io.slow_reads", "slow reads beside the swapping"},
    {"mem.reclaim_thrash", "io.local_disk_saturated", "a disk busy with reading the same files again"},
    {"mem.reclaim_thrash", "io.slow_reads", "slow reads of the same files"},
    {"mem.writeback_stall", "io.local_disk_saturated", "a disk busy with the written data"},
    {"mem.writeback_stall", "io.slow_reads", "slow reads beside the writing"},
    {"io.local_disk_saturated", "io.slow_reads", "slow reads"},
    {"io.local_disk_saturated", "cpu.freq_oscillation", "cpu clocks that changed while the job waited for the disk"},
    {"io.slow_reads", "cpu.freq_oscillation", "cpu clocks that changed while the job waited for reads"},
    {"gpu.ecc_remap", "gpu.xid", "an error that the driver reported"},
    {"gpu.thermal_throttle", "node.straggler", "other nodes that waited for this one"},
    {"gpu.hw_slowdown", "node.straggler", "other nodes that waited for this one"},
    {"gpu.power_cap", "node.straggler", "other nodes that waited for this one"},
    {"gpu.clocks_locked_low", "node.straggler", "other nodes that waited for this one"},
    {"gpu.starved_input", "node.straggler", "other nodes that waited for this one"},
    {"io.local_disk_saturated", "gpu.starved_io", "GPUs that waited for their data"},
    {"io.nfs_slow_server", "gpu.starved_io", "GPUs that waited for their data"},
    {"io.slow_reads", "gpu.starved_io", "GPUs that waited for their data"},
    {"io.metadata_storm", "gpu.starved_io", "GPUs that waited for their data"},
    {"cpu.outsider", "gpu.starved_input", "GPUs that waited for their data"},
    {"cpu.oversubscribed", "gpu.starved_input", "GPUs that waited for their data"},
    {"cpu.cfs_throttled", "node.straggler", "other nodes that waited for this one"},
    {"cpu.thermal_throttle", "node.straggler", "other nodes that waited for this one"},
    {"cpu.outsider", "node.straggler", "other nodes that waited for this one"},
    {"cpu.steal", "node.straggler", "other nodes that waited for this one"},
    {"mem.swap_activity", "node.straggler", "other nodes that waited for this one"},
    {"io.local_disk_saturated", "node.straggler", "other nodes that waited for this one"},
};

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kEdge = kSecond;  // rules know the ends of an interval to about that
constexpr std::int64_t kOnset = 10 * kSecond;
constexpr std::int64_t kAftermath = 5 * kSecond;  // queues drain, timers run out
constexpr double kExplainedShare = 0.8;

bool share_a_node(const Finding& a, const Finding& b) {
  return std::any_of(a.nodes.begin(), a.nodes.end(), [&](const std::string& node) {
    return std::find(b.nodes.begin(), b.nodes.end(), node) != b.nodes.end();
  });
}

std::int64_t onset_of(const Finding& finding) {
  std::int64_t onset = std::numeric_limits<std::int64_t>::max();
  for (const TimeSpan& span : finding.intervals) onset = std::min(onset, span.begin_utc_ns);
  return onset;
}

/// Each a little longer, so that they may overlap; then united.
std::vector<TimeSpan> reach_of(const Finding& cause) {
  std::vector<TimeSpan> spans = cause.intervals;
  std::sort(spans.begin(), spans.end(), [](TimeSpan a, TimeSpan b) { return a.begin_utc_ns < b.begin_utc_ns; });
  std::vector<TimeSpan> united;
  for (const TimeSpan& span : spans) {
    const TimeSpan wide{span.begin_utc_ns - kEdge, span.end_utc_ns + kAftermath};
    if (!united.empty() && wide.begin_utc_ns <= united.back().end_utc_ns) {
      united.back().end_utc_ns = std::max(united.back().end_utc_ns, wide.end_utc_ns);
    } else {
      united.push_back(wide);
    }
  }
  return united;
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

bool explains(const CausalLink& link, const Finding& cause, const Finding& effect) {
  if (!link.across_nodes && !share_a_node(cause, effect)) return false;
  if (effect.intervals.empty() || cause.intervals.empty()) return false;
  const std::int64_t delay = onset_of(effect) - onset_of(cause);
  if (delay < -kEdge || (link.late ? cause.severity < Severity::warning : delay > kOnset)) return false;
  const std::vector<TimeSpan> reach = reach_of(cause);
  double explained = 0;
  for (const TimeSpan& span : effect.intervals) explained += covered(span, reach);
  return explained >= kExplainedShare * static_cast<double>(effect.intervals.size());
}

Finding* with_id(std::vector<Finding>& findings, std::string_view id) {
  const auto at = std::find_if(findings.begin(), findings.end(), [&](const Finding& one) { return one.id == id; });
  return at == findings.end() ? nullptr : &*at;
}

/// Of several causes the one that began last: the nearest to the effect.
void find_cause(std::vector<Finding>& findings, Finding& effect) {
  const Finding* nearest = nullptr;
  for (const CausalLink& link : kLinks) {
    if (link.effect != effect.id) continue;
    const Finding* cause = with_id(findings, link.cause);
    if (cause == nullptr || !explains(link, *cause, effect)) continue;
    if (nearest == nullptr || onset_of(*cause) > onset_of(*nearest)) nearest = cause;
  }
  if (nearest != nullptr) effect.caused_by = nearest->id;
}

std::string_view words_of(const Finding& effect) {
  const auto link = std::find_if(std::begin(kLinks), std::end(kLinks), [&](const CausalLink& one) {
    return one.cause == effect.caused_by && one.effect == effect.id;
  });
  return link == std::end(kLinks) ? std::string_view() : link->words;
}

/// The chain costs at least what its dearest part does.
void take_over(const Finding& effect, Finding& first) {
  first.severity = std::max(first.severity, effect.severity);
  if (effect.impact.seconds.value_or(0) <= first.impact.seconds.value_or(0)) return;
  first.impact = effect.impact;
  first.impact.how = fmt::format("of what it led to ({}): {}", effect.id, effect.impact.how);
}

}  // namespace

std::span<const CausalLink> causal_links() noexcept {
  return kLinks;
}

std::vector<const Finding*> effects_of(const Finding& cause, std::span<const Finding> findings) {
  std::vector<const Finding*> effects;
  const auto add_of = [&](const std::string& id) {
    for (const Finding& finding : findings) {
      const bool known = std::find(effects.begin(), effects.end(), &finding) != effects.end();
      if (!id.empty() && finding.caused_by == id && finding.id != cause.id && !known) effects.push_back(&finding);
    }
  };
  add_of(cause.id);
  for (std::size_t i = 0; i < effects.size(); ++i) add_of(effects[i]->id);  // grows by the effects of effects
  std::stable_sort(effects.begin(), effects.end(),
                   [](const Finding* a, const Finding* b) { return onset_of(*a) < onset_of(*b); });
  return effects;
}

void link_causes(std::vector<Finding>& findings) {
  for (Finding& effect : findings) find_cause(findings, effect);
  for (Finding& first : findings) {
    if (!first.caused_by.empty()) continue;
    std::vector<std::string> chain;
    for (const Finding* effect : effects_of(first, findings)) {
      chain.emplace_back(words_of(*effect));
      take_over(*effect, first);
    }
    if (!chain.empty()) first.sentence += fmt::format(" This led to {}.", joined(chain, ", then "));
  }
}

}  // namespace reveal
