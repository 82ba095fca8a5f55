#include "postproc/peers/across_nodes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "hdf5schema/basics/clocks.h"
#include "postproc/peers/peers.h"

namespace reveal::tests::across_nodes_test {
namespace {

constexpr std::int64_t kBegin = 1'700'000'000 * kSecond;
constexpr TimeSpan kJob{kBegin, kBegin + 120 * kSecond};

/// A node of two minutes: a level that falls from 63 to 0 in the middle, one that stands still, one that is 0.
NodeProfile node(const std::string& name, double still) {
  NodeProfile profile;
  profile.node = name;
  profile.begin_utc_ns = kBegin;
  profile.end_utc_ns = kBegin + 120 * kSecond;
  profile.block_ns = 60 * kSecond;
  profile.first_block = kBegin / profile.block_ns;
  profile.sparkline_step_ns = 60 * kSecond;
  profile.channels = {{.name = "mem.falling",
                       .unit = "bytes",
                       .mean = 31,
                       .blocks = {63, 0},
                       .trend = ProfileTrend{.high = 63, .line = "o0"}},
                      {.name = "mem.still", .unit = "bytes", .mean = still}};
  profile.zeros = {"mem.none"};
  return profile;
}

PeerDeviation deviation(const std::string& node, const std::string& channel, double t) {
  PeerDeviation made;
  made.node = node;
  made.channel = channel;
  made.t = t;
  return made;
}

struct Job {
  std::vector<NodeProfile> nodes;
  PeerComparison comparison;
  std::vector<Finding> findings = {};

  [[nodiscard]] std::vector<MetricAcrossNodes> across() const {
    std::vector<const NodeProfile*> profiles;
    for (const NodeProfile& node : nodes) profiles.push_back(&node);
    return metrics_across(profiles, comparison, findings, kJob);
  }
};

/// n1 of so many has more in `mem.still` than the others.
Job job_of(std::size_t nodes) {
  Job job;
  PeerGroup group;
  for (std::size_t i = 1; i <= nodes; ++i) {
    job.nodes.push_back(node("n" + std::to_string(i), i == 1 ? 170 : 120));
    group.nodes.push_back(job.nodes.back().node);
  }
  std::sort(group.nodes.begin(), group.nodes.end());
  job.comparison.groups = {group};
  job.comparison.deviations = {deviation("n1", "mem.still", 12)};
  return job;
}

TEST(AcrossNodes, DrawsTheNodeThatDiffersBesideItsPeersAndTheirMedian) {
  const auto metrics = job_of(5).across();
  ASSERT_EQ(metrics.size(), 1U);
  EXPECT_EQ(metrics[0].channel, "mem.still");
  EXPECT_EQ(metrics[0].unit, "bytes");
  EXPECT_DOUBLE_EQ(metrics[0].step_seconds, 1);
  EXPECT_EQ(metrics[0].peers, 4U);
  EXPECT_EQ(metrics[0].median_mean, 120);
  EXPECT_EQ(metrics[0].median, std::vector<double>(120, 120));
  ASSERT_EQ(metrics[0].lines.size(), 5U);
  EXPECT_EQ(metrics[0].lines[0].node, "n1");
  EXPECT_TRUE(metrics[0].lines[0].differs);
  EXPECT_EQ(metrics[0].lines[0].values, std::vector<double>(120, 170));
  EXPECT_FALSE(metrics[0].lines[1].differs);
}

TEST(AcrossNodes, DrawsTheCourseOfAChannelOverTheJob) {
  Job job = job_of(3);
  job.comparison.deviations = {deviation("n2", "mem.falling", 3)};
  const auto metrics = job.across();
  ASSERT_EQ(metrics.size(), 1U);
  const std::vector<double>& values = metrics[0].lines.at(0).values;
  EXPECT_EQ(values.at(0), 63);
  EXPECT_EQ(values.at(59), 63);
  EXPECT_EQ(values.at(60), 0);
}

TEST(AcrossNodes, TakesMeansOfBlocksWhereTheLineWasCut) {
  Job job = job_of(3);
  for (NodeProfile& node : job.nodes) node.channels[0].trend.reset();
  job.comparison.deviations = {deviation("n2", "mem.falling", 3)};
  const auto metrics = job.across();
  ASSERT_EQ(metrics.size(), 1U);
  const auto& values = metrics[0].lines.at(0).values;
  const auto in_first = static_cast<std::size_t>(60 - (kBegin / kSecond) % 60);  // points of a second
  EXPECT_EQ(values.at(in_first - 1), 63);
  EXPECT_EQ(values.at(in_first), 0);
}

TEST(AcrossNodes, HasGapsWhereANodeWasNotThere) {
  Job job = job_of(3);
  job.nodes[0].begin_utc_ns += 30 * kSecond;
  const auto metrics = job.across();
  EXPECT_TRUE(std::isnan(metrics.at(0).lines.at(0).values.at(29)));
  EXPECT_EQ(metrics.at(0).lines.at(0).values.at(30), 170);
}

TEST(AcrossNodes, ShowsEvidenceFirstThenTheLargestDeviations) {
  Job job = job_of(4);
  job.comparison.deviations = {deviation("n1", "mem.falling", -2), deviation("n1", "mem.still", 12)};
  Finding finding;
  finding.severity = Severity::warning;
  finding.evidence = {{.metric = "mem.none", .node = "n3"}, {.metric = "not.measured", .node = "n3"}};
  job.findings = {finding};
  std::vector<std::string> channels;
  for (const MetricAcrossNodes& metric : job.across()) channels.push_back(metric.channel);
  EXPECT_EQ(channels, (std::vector<std::string>{"mem.none", "mem.still", "mem.falling"}));
  EXPECT_EQ(job.across()[0].lines[0].values, std::vector<double>(120, 0));
}

TEST(AcrossNodes, TakesTheWholeNodeWhereAnInstanceIsNotInTheProfiles) {
  Job job = job_of(4);
  job.comparison.deviations.clear();
  Finding finding;
  finding.severity = Severity::warning;
  finding.evidence = {{.metric = "mem.still", .instance = "node0", .node = "n1"}};
  job.findings = {finding};
  ASSERT_EQ(job.across().size(), 1U);
  EXPECT_EQ(job.across()[0].channel, "mem.still");
}

TEST(AcrossNodes, LeavesTheMedianToStandForManyPeers) {
  Job job = job_of(1024);
  for (int i = 0; i < 40; ++i) {
    job.comparison.deviations.push_back(deviation("n" + std::to_string(2 + i), "mem.falling", 1 + i));
  }
  const auto metrics = job.across();
  ASSERT_EQ(metrics.size(), 2U);
  EXPECT_EQ(metrics[0].channel, "mem.falling");
  EXPECT_EQ(metrics[0].lines.size(), 4U);
  EXPECT_EQ(metrics[0].lines[0].node, "n41");
  EXPECT_EQ(metrics[1].lines.size(), 1U);
  EXPECT_EQ(metrics[1].peers, 1023U);
}

TEST(AcrossNodes, DrawsTwoNodesWithoutAMedianAndOneNodeNotAtAll) {
  const auto metrics = job_of(2).across();
  ASSERT_EQ(metrics.size(), 1U);
  EXPECT_TRUE(metrics[0].median.empty());
  EXPECT_EQ(metrics[0].median_mean, std::nullopt);
  EXPECT_EQ(metrics[0].lines.size(), 2U);
  EXPECT_TRUE(job_of(1).across().empty());
}

TEST(AcrossNodes, DrawsNothingOfAJobWithoutALength) {
  Job job = job_of(3);
  std::vector<const NodeProfile*> profiles{&job.nodes[0], &job.nodes[1], &job.nodes[2]};
  EXPECT_TRUE(metrics_across(profiles, job.comparison, {}, {kBegin, kBegin}).empty());
  EXPECT_TRUE(metrics_across(profiles, job.comparison, {}, {INT64_MIN, INT64_MAX}).empty());
}

}  // namespace
}  // namespace reveal::tests::across_nodes_test
