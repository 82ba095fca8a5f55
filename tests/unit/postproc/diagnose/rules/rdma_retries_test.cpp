// rdma.retries on packets that were lost or came to a receiver without a buffer, and on cases that only look like it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>

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
            "The RDMA port mlx5_0:1 of node n2 repeated at least 2,970 RDMA requests in 15 s (usually 0/s): packets "
            "were lost on the path and sent again.");
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

/// What a soft-RoCE device counted in an emulated node, second by second, whose link lost 1 % of the packets from
/// second 22 to second 42.
constexpr double kSent[] = {0,     0,     0,     32888, 34755, 35540, 35607, 34737, 35089, 35405, 34762, 34559,
                            35596, 34609, 34674, 34983, 35055, 34471, 34267, 34691, 33940, 34366, 1516,  382,
                            0,     209,   126,   0,     2522,  0,     1406,  0,     406,   0,     0,     324,
                            0,     6484,  0,     2377,  0,     0,     552,   0,     19465, 34276, 34539, 34958,
                            34904, 35015, 34367, 34789, 33976, 34373, 33522, 33699, 33812, 32960, 33491, 32377,
                            31345, 33450, 33350, 33232, 33260, 32842, 34124, 33721, 33922, 34261, 34086, 34283,
                            33939, 34208, 33868, 33850, 33660, 33643, 33605, 33752, 33839, 33765, 33262};
constexpr double kRepeated[] = {0,  0, 0,  0, 0, 0, 0, 0, 0, 0,  0, 0,  0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 4, 0, 2, 1, 0,
                                28, 0, 14, 0, 2, 0, 0, 1, 0, 57, 0, 17, 0, 0, 3, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0,
                                0,  0, 0,  1, 0, 0, 0, 0, 1, 0,  0, 0,  0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
static_assert(std::size(kSent) == std::size(kRepeated));

R::Course seconds_of(std::span<const double> counted) {
  return [counted](double second) { return counted[std::min(static_cast<std::size_t>(second), counted.size() - 1)]; };
}

TEST(RuleRdmaRetries, JoinsBurstsOfAJobThatStandsStillBetweenThem) {
  R node(std::size(kSent));
  node.counter("rdma.completer_retry_err", "rxe0:1", seconds_of(kRepeated), "node");
  EXPECT_TRUE(node.findings("rdma.retries").empty()) << "without packets, each burst is judged by itself";
  node.counter("rdma.sent_pkts", "rxe0:1", seconds_of(kSent), "node");
  const auto found = node.findings("rdma.retries");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 23, 1.1);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 43, 1.2);
  EXPECT_NE(found[0].sentence.find(", one per "), std::string::npos) << found[0].sentence;
  EXPECT_GT(found[0].impact.seconds.value_or(0), 15);
}

TEST(RuleRdmaRetries, IsSilentOnFewRetriesHoweverTheTrafficPauses) {
  const auto pauses = [](double second) { return std::fmod(second, 60) < 4; };
  R starved(400);  // an emulated node repeats one now and then
  starved.counter(
      "rdma.completer_retry_err", "rxe0:1",
      [&](double second) { return second >= 100 && second < 160 && !pauses(second) ? 0.8 : 0; }, "node");
  starved.counter(
      "rdma.sent_pkts", "rxe0:1", [&](double second) { return pauses(second) ? 0 : 35e3; }, "node");
  EXPECT_TRUE(starved.findings("rdma.retries").empty()) << "45 of 2 million";

  R bursts = port("rdma.packet_seq_err", R::habit(0, 12));
  EXPECT_FALSE(bursts.findings("rdma.retries").empty());
  bursts.counter("ib.xmit_packets", "mlx5_0:1", R::habit(0, 20e6), "node");
  EXPECT_TRUE(bursts.findings("rdma.retries").empty()) << "36 of 60 million in each";
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
