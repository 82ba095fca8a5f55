// ib.congestion_xmit_wait on a port that waits more and sends less, and on ports that wait for other reasons.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::ib_congestion_test {
namespace {

using R = RuleRecording;

std::vector<Finding> of(const R::Course& ticks, const R::Course& bytes, const char* layer = "InfiniBand") {
  R node;
  node.counter("ib.xmit_wait", "mlx5_0:1", ticks, "node").counter("ib.xmit_bytes", "mlx5_0:1", bytes, "node");
  node.begin = {{"rdma.mlx5_0.1.link_layer", layer}, {"rdma.mlx5_0.1.state", "ACTIVE"}};
  return node.findings("ib.congestion_xmit_wait");
}

TEST(RuleIbCongestion, NamesThePortTheIntervalAndTheLoss) {
  const auto found = of(R::event(2e7, 3e9), R::event(20e9, 12e9));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "For 15 s, mlx5_0:1 of n2 had data to send but no credits: it waited 1 ticks per word sent (usually 0.004) "
            "and sent 11.1 GiB/s (usually 18.4 GiB/s).");
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"mlx5_0:1"});
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.4 * 15, 0.6);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_NEAR(found[0].evidence.at(0).observed.value_or(0), 1, 0.1);  // ticks per word of 4 bytes
  EXPECT_EQ(found[0].remedy.admin.at(0).substr(0, 30), "perfquery -C mlx5_0 -P 1   # P");
}

TEST(RuleIbCongestion, IsSilentOnAHealthyPort) {
  EXPECT_TRUE(of(R::always(2e7), R::always(20e9)).empty()) << "waits a little, all the time";
  EXPECT_TRUE(of(R::always(0), R::always(20e9)).empty());
  EXPECT_TRUE(of(R::event(10, 9000), R::event(20e9, 12e9)).empty()) << "next to no waiting";
  EXPECT_TRUE(of(R::event(0, 1e5), R::event(0, 2e3)).empty()) << "next to no traffic: management packets";
}

TEST(RuleIbCongestion, IsSilentOnPhasesStragglersAndEthernet) {
  EXPECT_TRUE(of(R::event(2e7, 3e9), R::event(5e9, 20e9)).empty()) << "the job sends more, so it waits more";
  EXPECT_TRUE(of(R::event(2e7, 1e7), R::event(20e9, 10e9)).empty()) << "it waits for a slow rank, not for credits";
  EXPECT_TRUE(of(R::habit(2e7, 3e9), R::habit(20e9, 12e9)).empty()) << "every 20 s: a habit of the job";
  EXPECT_TRUE(of(R::event(2e7, 3e9), R::event(20e9, 12e9), "Ethernet").empty()) << "no credits there";
}

TEST(RuleIbCongestion, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("ib.congestion_xmit_wait")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::ib_congestion_test
