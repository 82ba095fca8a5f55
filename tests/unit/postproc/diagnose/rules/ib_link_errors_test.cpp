// ib.link_errors on links that fail or damage packets, and on the few errors and the unused ports that every fabric
// has.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::ib_link_errors_test {
namespace {

using R = RuleRecording;

/// As the grid has a row of ten seconds: in equal parts.
R::Course in_row(double when, double count) {
  return [=](double second) { return second >= when && second < when + 10 - 1e-9 ? count / 100 : 0; };
}

struct Errors {
  double downed = 0;
  double symbol = 0;
  double remote = 0;
};

R node_with(const Errors& errors, double seconds = 600) {
  R node(seconds);
  node.gauge("ib.link_downed", "mlx5_0:1", in_row(300, errors.downed), "node");
  node.gauge("ib.symbol_error", "mlx5_0:1", in_row(320, errors.symbol), "node");
  node.gauge("ib.symbol_error", "mlx5_1:1", in_row(320, 1), "node");
  node.gauge("ib.rcv_remote_physical_errors", "mlx5_0:1", in_row(100, errors.remote), "node");
  node.begin = {{"rdma.mlx5_0.1.state", "ACTIVE"}, {"rdma.mlx5_1.1.state", "ACTIVE"}};
  node.end = node.begin;
  return node;
}

TEST(RuleIbLinkErrors, NamesThePortTheTimeAndTheErrors) {
  const R node = node_with({.downed = 1, .symbol = 40});
  const auto found = node.findings("ib.link_errors");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence, "mlx5_0:1 of n2 counted 1 link failure, 40 symbol errors while the job ran.");
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"mlx5_0:1"});
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 300, 0.2);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 330, 0.2);
  EXPECT_EQ(found[0].evidence.size(), 2U);
  EXPECT_EQ(found[0].remedy.admin.at(0).substr(0, 28), "mlxlink -d mlx5_0 -p 1 -c -m");
}

TEST(RuleIbLinkErrors, NamesTheToolsOfAMakerOnlyForItsAdapters) {
  const auto first_line = [](const std::string& device, const std::string& type) {
    R node(600);
    node.gauge("ib.link_downed", device + ":1", in_row(300, 1), "node");
    node.begin = {{"rdma." + device + ".1.state", "ACTIVE"}, {"rdma." + device + ".type", type}};
    node.end = node.begin;
    return node.findings("ib.link_errors").at(0).remedy.admin.at(0);
  };
  EXPECT_TRUE(first_line("ibp24s0", "MT4129").starts_with("mlxlink -d ibp24s0 -p 1 "));
  EXPECT_TRUE(first_line("hfi1_0", "").starts_with("ibqueryerrors ")) << "Omni-Path";
}

TEST(RuleIbLinkErrors, SaysWhereDamageThatCameFromFurtherUpWasDone) {
  const auto found = node_with({.remote = 500}).findings("ib.link_errors");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_NE(found[0].sentence.find("on an earlier link"), std::string::npos) << found[0].sentence;
}

TEST(RuleIbLinkErrors, IsSilentOnAFewErrorsOldOnesAndUnusedPorts) {
  EXPECT_TRUE(node_with({}).findings("ib.link_errors").empty()) << "whatever was counted before the job";
  EXPECT_TRUE(node_with({.symbol = 9}).findings("ib.link_errors").empty());
  EXPECT_TRUE(node_with({.symbol = 12}, 7200).findings("ib.link_errors").empty()) << "six an hour";
  R unused = node_with({.downed = 3, .symbol = 400});
  unused.begin = {{"rdma.mlx5_0.1.state", "DOWN"}, {"rdma.mlx5_1.1.state", "ACTIVE"}};
  unused.end = unused.begin;
  EXPECT_TRUE(unused.findings("ib.link_errors").empty()) << "a port without a cable";
}

TEST(RuleIbLinkErrors, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("ib.link_errors")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::ib_link_errors_test
