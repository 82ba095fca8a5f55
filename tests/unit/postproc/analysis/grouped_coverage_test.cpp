#include "postproc/analysis/grouped_coverage.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reveal::tests::grouped_coverage_test {
namespace {

NodeCoverage node_of(const std::string& name, double present, double expected = 100) {
  return {.nodes = {name}, .samples_expected = expected, .samples_present = present, .probes = {}, .note = ""};
}

TEST(GroupedCoverage, IsOfTheWorstOfTheNodesThatHaveNearlyAllSamples) {
  std::vector<NodeCoverage> nodes = {node_of("n1", 100), node_of("n2", 95), node_of("n3", 200, 200)};
  nodes[0].clock_error_seconds = 1e-6;
  nodes[1].clock_error_seconds = 3e-6;
  nodes[2].clock_error_seconds = 2e-6;
  const std::vector<NodeCoverage> groups = grouped_coverage(nodes);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].nodes, (std::vector<std::string>{"n1", "n2", "n3"}));
  EXPECT_EQ(groups[0].samples_present, 95);
  EXPECT_EQ(groups[0].samples_expected, 100);
  EXPECT_EQ(groups[0].clock_error_seconds, 3e-6);
}

TEST(GroupedCoverage, KeepsNodesApartThatDifferInWhatTheReportShows) {
  const NodeCoverage usual = node_of("n1", 100);
  std::vector<NodeCoverage> others(6, node_of("n2", 100));
  others[0].samples_present = 94;
  others[1].samples_present.reset();
  others[2].clock_error_seconds = 1e-6;
  others[3].note = "cut off after 5 s";
  others[4].probes = {{.probe = "gpu", .state = Coverage::State::absent, .reason = "no GPU"}};
  others[5].samples_expected = 0;
  for (const NodeCoverage& other : others) {
    EXPECT_EQ(grouped_coverage({usual, other}).size(), 2U) << &other - others.data();
    EXPECT_EQ(grouped_coverage({other, other}).size(), 1U) << &other - others.data();
  }
  EXPECT_TRUE(grouped_coverage({}).empty());
}

}  // namespace
}  // namespace reveal::tests::grouped_coverage_test
