#include <gtest/gtest.h>

#include "gpu_training.h"

namespace reveal::tests::gpu_healthy_test {
namespace {

TEST(RuleGpuHealthy, TrainingHasNoFindingOfAnyRule) {
  for (const RuleSpec* rule : rules()) {
    if (!rule->id.starts_with("gpu.") || rule->id == "gpu.nvlink_down") continue;
    GpuTraining healthy;
    healthy.node.counter("net.tx_bytes", "eth0", GpuTraining::while_it_works(100e6, 20e6), "node");
    healthy.node.gauge("gpu.memory_utilization", "gpu0", GpuTraining::while_it_works(45, 0));
    const auto found = healthy.findings(rule->id);
    EXPECT_TRUE(found.empty()) << rule->id << ": " << (found.empty() ? "" : found[0].sentence);
  }
}

}  // namespace
}  // namespace reveal::tests::gpu_healthy_test
