#include "postproc/ledger/node_causes.h"

#include <algorithm>
#include <iterator>

namespace reveal {
namespace {

struct NodeCause {
  std::string_view rule;
  Blame blame = Blame::node;
};

// A rule that is not here is the job's: a node is not blamed for the programs of its users.
constexpr NodeCause kNodeCauses[] = {
    {"cpu.clocksource_not_tsc"},
    {"cpu.freq_oscillation"},
    {"cpu.governor_powersave"},
    {"cpu.os_jitter"},
    {"cpu.outsider"},
    {"cpu.power_cap"},
    {"cpu.smi_noise"},
    {"cpu.steal"},
    {"cpu.thermal_throttle"},
    {"gpu.clocks_locked_low"},
    {"gpu.ecc_remap"},
    {"gpu.hw_slowdown"},
    {"gpu.nvlink_down"},
    {"gpu.power_cap"},
    {"gpu.thermal_throttle"},
    {"gpu.xid"},
    {"ib.link_degraded"},
    {"ib.link_errors"},
    {"irq.balance_service_off"},
    {"irq.imbalance"},
    {"irq.remote_numa"},
    {"mem.ecc_host"},
    {"mem.hugepages_inconsistent"},
    {"mem.hugepages_reserved_idle"},
    {"nccl.gdr_unavailable"},
    {"net.mtu_mismatch"},
    {"net.nic_rx_drop"},
    {"net.tcp_retrans_fault"},
    {"net.tx_queue_drop"},
    {"node.clock_drift"},
    {"node.config_drift"},
    {"node.differs"},
    {"node.noisy_neighbour"},
    {"node.straggler"},
    {"pcie.errors"},
    {"pcie.link_downtrained"},
    // A job can do this to itself on any node.
    {"io.fs_full", Blame::node_unlike_others},
    {"io.local_disk_saturated", Blame::node_unlike_others},
    {"io.nfs_slow_server", Blame::node_unlike_others},
    {"io.slow_reads", Blame::node_unlike_others},
    {"irq.softirq_saturation", Blame::node_unlike_others},
    {"mem.thp_off_tlb", Blame::node_unlike_others},
    {"mem.thp_stalls", Blame::node_unlike_others},
    {"net.congestion", Blame::node_unlike_others},
    {"net.pause_congestion", Blame::node_unlike_others},
    {"net.tcp_retrans_intrinsic", Blame::node_unlike_others},
    {"rdma.retries", Blame::node_unlike_others},
    {"stack.hang", Blame::node_unlike_others},
    {"stack.late_rank", Blame::node_unlike_others},
    {"stack.slow_steps", Blame::node_unlike_others},
    {"stack.stall", Blame::node_unlike_others},
};

}  // namespace

Blame blame_of(std::string_view rule) noexcept {
  const auto* const known = std::find_if(std::begin(kNodeCauses), std::end(kNodeCauses),
                                         [rule](const NodeCause& cause) { return cause.rule == rule; });
  return known == std::end(kNodeCauses) ? Blame::job : known->blame;
}

}  // namespace reveal
