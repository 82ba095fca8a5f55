// rdma.retries on packets that were lost or came to a receiver without a buffer, and on cases that only look like it.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::rdma_retries_test {
namespace {

using R = RuleRecording;

/// A mlx5 port, with one of its counters on this course.
R port(const std::string& metric, const R::Course& course, const R::Course& bytes = R::always(10e9)) {
  R node;
  for (const char* other : {"rdma.packet_seq_err", "rdma.local_ack_timeout_err", "rdma.rnr_nak_retry_err",
                            "rdma.out_of_sequence", "rdma.implied_nak_seq_err"}) {
    node.counter(other, "mlx5_0:1", other == metric ? course : R::always(0), "node");
  }
  node.counter("ib.xmit_bytes", "mlx5_0:1", bytes, "node");
  node.begin = {{"rdma.mlx5_0.1.interface", "ib0"}, {"rdma.mlx5_0.1.state", "ACTIVE"}};
  return node;
}

TEST(RuleRdmaRetries, NamesThePortTheIntervalTheReasonAndTheLoss) {
  const R node = port("rdma.packet_seq_err", R::event(0, 200), R::event(10e9, 7e9));
  const auto found = node.findings("rdma.retries");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "mlx5_0:1 of n2 repeated at least 2,970 RDMA requests in 15 s (usually 0/s): packets were lost on the path "
            "and sent again.");
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"mlx5_0:1"});
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 50, 0.6);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.3 * 15, 0.6);
  EXPECT_EQ(found[0].evidence.at(0).metric, "rdma.packet_seq_err");
  EXPECT_NE(found[0].remedy.admin.at(0).find("/infiniband/mlx5_0/ports/1/hw_counters"), std::string::npos);
  EXPECT_NE(found[0].remedy.admin.at(2).find("mlnx_qos -i ib0"), std::string::npos);
}

TEST(RuleRdmaRetries, TellsTimeoutsFromLoss) {
  const auto timed_out = port("rdma.local_ack_timeout_err", R::event(0, 20)).findings("rdma.retries");
  ASSERT_EQ(timed_out.size(), 1U);
  EXPECT_NE(timed_out[0].sentence.find("not acknowledged in time"), std::string::npos) << timed_out[0].sentence;
}

TEST(RuleRdmaRetries, SeesAFabricThatLosesFromTheFirstSecondToTheLast) {
  const R node = port("rdma.packet_seq_err", R::always(50));
  const auto found = node.findings("rdma.retries");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 120, 0.2);
  EXPECT_FALSE(found[0].impact.seconds.has_value());
}

TEST(RuleRdmaRetries, ReadsTheNamesOfSoftwareDevices) {
  R node;
  node.counter("rdma.completer_retry_err", "rxe0:1", R::event(0, 30), "node");
  node.counter("rdma.sent_pkts", "rxe0:1", R::event(9000, 3000), "node");
  const auto found = node.findings("rdma.retries");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 10, 1);
}

TEST(RuleRdmaRetries, IsSilentOnSeveralPathsAFewRetriesAndTheEndOfTheJob) {
  const auto silent = [](const R& node) { return node.findings("rdma.retries").empty(); };
  EXPECT_TRUE(silent(port("", R::always(0))));
  EXPECT_TRUE(silent(port("rdma.out_of_sequence", R::event(10, 5000)))) << "adaptive routing";
  EXPECT_TRUE(silent(port("rdma.packet_seq_err", R::event(0, 1.5)))) << "22 in a job";
  EXPECT_TRUE(silent(port("rdma.packet_seq_err", R::always(0.05))));
  EXPECT_TRUE(silent(port("rdma.rnr_nak_retry_err", R::event(0, 200)))) << "a program that posts its buffers late";
  const auto at_the_end = [](double second) { return second >= 114 ? 90.0 : 0.0; };
  EXPECT_TRUE(silent(port("rdma.local_ack_timeout_err", at_the_end))) << "a peer has ended";
}

TEST(RuleRdmaRetries, HoldsThemAgainstThePacketsSent) {
  R busy = port("rdma.packet_seq_err", R::event(0, 5));
  EXPECT_EQ(busy.findings("rdma.retries").size(), 1U);
  busy.counter("ib.xmit_packets", "mlx5_0:1", R::always(20e6), "node");
  EXPECT_TRUE(busy.findings("rdma.retries").empty()) << "one of four million";
  R idle = port("rdma.packet_seq_err", R::event(0, 5));
  idle.counter("ib.xmit_packets", "mlx5_0:1", R::always(1e6), "node");
  EXPECT_EQ(idle.findings("rdma.retries").size(), 1U);
}

TEST(RuleRdmaRetries, CountsARequestThatIsInTwoCountersOnce) {
  R node;
  for (const char* metric : {"rdma.packet_seq_err", "rdma.implied_nak_seq_err"}) {
    node.counter(metric, "mlx5_0:1", R::event(0, 1.6), "node");
  }
  EXPECT_TRUE(node.findings("rdma.retries").empty()) << "24, not 48";
}

TEST(RuleRdmaRetries, IsSilentOnAProtocolThatSendsAgainAsAMatterOfCourse) {
  R node = port("", R::always(0));
  node.counter("rdma.retrans_pkts", "efa_0:1", R::event(0, 500), "node");
  node.counter("rdma.packet_seq_err", "efa_0:1", R::event(0, 500), "node");
  EXPECT_TRUE(node.findings("rdma.retries").empty());
}

TEST(RuleRdmaRetries, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("rdma.retries")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::rdma_retries_test
