#include "postproc/ledger/node_causes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "postproc/diagnose/rule.h"

namespace reveal::tests::node_causes_test {
namespace {

/// A new rule is put into one of these lists by a person; the default, the job, is not decided by accident.
TEST(NodeCauses, AreDecidedForEveryRule) {
  std::map<Blame, std::vector<std::string>> lists;
  for (const RuleSpec* rule : rules()) lists[blame_of(rule->id)].emplace_back(rule->id);
  for (auto& [blame, list] : lists) std::sort(list.begin(), list.end());
  EXPECT_EQ(lists[Blame::node], (std::vector<std::string>{"cpu.clocksource_not_tsc",
                                                          "cpu.freq_oscillation",
                                                          "cpu.governor_powersave",
                                                          "cpu.os_jitter",
                                                          "cpu.outsider",
                                                          "cpu.power_cap",
                                                          "cpu.smi_noise",
                                                          "cpu.steal",
                                                          "cpu.thermal_throttle",
                                                          "gpu.clocks_locked_low",
                                                          "gpu.ecc_remap",
                                                          "gpu.hw_slowdown",
                                                          "gpu.nvlink_down",
                                                          "gpu.power_cap",
                                                          "gpu.thermal_throttle",
                                                          "gpu.xid",
                                                          "ib.link_degraded",
                                                          "ib.link_errors",
                                                          "irq.balance_service_off",
                                                          "irq.imbalance",
                                                          "irq.remote_numa",
                                                          "mem.ecc_host",
                                                          "mem.hugepages_inconsistent",
                                                          "mem.hugepages_reserved_idle",
                                                          "nccl.gdr_unavailable",
                                                          "net.mtu_mismatch",
                                                          "net.nic_rx_drop",
                                                          "net.tcp_retrans_fault",
                                                          "net.tx_queue_drop",
                                                          "node.clock_drift",
                                                          "node.config_drift",
                                                          "node.differs",
                                                          "node.noisy_neighbour",
                                                          "node.straggler",
                                                          "pcie.errors",
                                                          "pcie.link_downtrained"}));
  EXPECT_EQ(lists[Blame::node_unlike_others],
            (std::vector<std::string>{"io.fs_full", "io.local_disk_saturated", "io.nfs_slow_server", "io.slow_reads",
                                      "irq.softirq_saturation", "mem.thp_off_tlb", "mem.thp_stalls", "net.congestion",
                                      "net.pause_congestion", "net.tcp_retrans_intrinsic", "rdma.retries", "stack.hang",
                                      "stack.late_rank", "stack.slow_steps", "stack.stall"}));
  EXPECT_EQ(lists[Blame::job], (std::vector<std::string>{"anomaly.unexplained",
                                                         "cpu.affinity_too_narrow",
                                                         "cpu.cfs_throttled",
                                                         "cpu.oversubscribed",
                                                         "cpu.smt_shared",
                                                         "gpu.allocated_unused",
                                                         "gpu.imbalance",
                                                         "gpu.mem_pressure",
                                                         "gpu.small_kernels",
                                                         "gpu.starved_comm",
                                                         "gpu.starved_input",
                                                         "gpu.starved_io",
                                                         "history.changed",
                                                         "history.drift",
                                                         "history.slower",
                                                         "ib.congestion_xmit_wait",
                                                         "io.metadata_storm",
                                                         "job.over_requested",
                                                         "job.stopped",
                                                         "mem.bw_saturated",
                                                         "mem.leak_oom_risk",
                                                         "mem.oom_killed",
                                                         "mem.reclaim_thrash",
                                                         "mem.swap_activity",
                                                         "mem.writeback_stall",
                                                         "nccl.debug_env_left",
                                                         "nccl.single_qp",
                                                         "nccl.socket_fallback",
                                                         "nccl.socket_threads",
                                                         "nccl.wrong_hca_or_unused_rail",
                                                         "node.pair_differs",
                                                         "numa.autobalancing_churn",
                                                         "numa.cpu_gpu_mismatch",
                                                         "numa.mem_remote",
                                                         "numa.nic_gpu_mismatch",
                                                         "numa.single_node_pileup",
                                                         "numa.unbound_migrating",
                                                         "stack.alloc_churn",
                                                         "stack.errors",
                                                         "stack.gc_pauses",
                                                         "stack.import_storm",
                                                         "stack.input_wait",
                                                         "stack.small_messages",
                                                         "stack.sync_bound"}));
}

}  // namespace
}  // namespace reveal::tests::node_causes_test
