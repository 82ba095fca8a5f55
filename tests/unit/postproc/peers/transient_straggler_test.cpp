// Who was waited for during a part of the job, with two nodes or more.
#include <gtest/gtest.h>

#include <random>

#include "config_of.h"
#include "hdf5schema/basics/clocks.h"
#include "postproc/peers/job_rule.h"

namespace reveal::tests::transient_straggler_test {
namespace {

struct Node {
  double usual = 0.8;
  double inside = 0.8;  // from 50 s to 70 s
};

std::vector<NodeProfile> record(const std::vector<Node>& nodes, double begin = 50, double end = 70,
                                const Snapshot& facts = {}) {
  std::vector<NodeProfile> profiles;
  std::mt19937 random(3);
  std::normal_distribution<double> normal(0, 0.05);
  for (const Node& node : nodes) {
    Telemetry telemetry;
    telemetry.node = "n" + std::to_string(profiles.size() + 1);
    telemetry.begin_utc_ns = 1'700'000'000 * kSecond;
    telemetry.samples = 1200;
    for (const char* metric : {"job.cpu_time", "job.wait_time"}) {
      telemetry.channels.push_back({.metric = metric,
                                    .kind = Kind::counter,
                                    .unit = Unit::nanoseconds,
                                    .scope = Scope::job,
                                    .subsystem = Subsystem::process});
      for (std::size_t t = 0; t < telemetry.samples; ++t) {
        const double second = static_cast<double>(t) * 0.1;
        const double own = second >= begin && second < end ? node.inside : node.usual;
        const double value =
            metric == std::string("job.cpu_time") ? own + normal(random) : 0.02 + 0.01 * normal(random);
        telemetry.values.push_back(std::max(0.0, value) * 1e8);
      }
    }
    profiles.push_back(profile_of(telemetry, facts));
  }
  return profiles;
}

std::vector<Finding> found(const std::vector<NodeProfile>& profiles, const AnalysisSettings& settings = {}) {
  std::vector<const NodeProfile*> nodes;
  for (const NodeProfile& profile : profiles) nodes.push_back(&profile);
  const PeerComparison comparison = compare_peers(nodes, settings);
  auto passing = run_job_rules({.comparison = comparison, .nodes = nodes, .job = {}}, settings);
  std::erase_if(passing, [](const Finding& one) {
    return one.id != "node.straggler" || one.intervals.front() == TimeSpan{};  // the whole job
  });
  return passing;
}

double second_of(std::int64_t utc_ns) {
  return static_cast<double>(utc_ns - 1'700'000'000 * kSecond) * 1e-9;
}

TEST(TransientStraggler, IsNamedAmongTwo) {
  const auto findings = found(record({{0.8, 0.4}, {0.8, 1.0}}));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "node.straggler");
  EXPECT_EQ(findings[0].nodes, std::vector<std::string>{"n2"});
  EXPECT_EQ(findings[0].severity, Severity::notice);
  EXPECT_NEAR(second_of(findings[0].intervals.at(0).begin_utc_ns), 50, 1);
  EXPECT_NEAR(second_of(findings[0].intervals.at(0).end_utc_ns), 70, 1);
  EXPECT_NEAR(findings[0].impact.seconds.value_or(0), 10, 1.5) << "the others slept half of twenty seconds";
}

TEST(TransientStraggler, IsNamedAmongFour) {
  const auto findings = found(record({{0.8, 0.4}, {0.8, 0.4}, {0.85, 0.95}, {0.8, 0.4}}));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].nodes, std::vector<std::string>{"n3"});
}

TEST(TransientStraggler, IsNamedEvenIfItIsWaitedForMostOfTheTime) {
  const auto findings = found(record({{0.8, 0.4}, {0.8, 1.0}}, 30, 88));
  ASSERT_EQ(findings.size(), 1U) << "the nodes are alike before and after";
  EXPECT_EQ(findings[0].nodes, std::vector<std::string>{"n2"});
  EXPECT_NEAR(second_of(findings[0].intervals.at(0).begin_utc_ns), 30, 1);
  EXPECT_NEAR(second_of(findings[0].intervals.at(0).end_utc_ns), 88, 1);
  EXPECT_TRUE(found(record({{0.4, 0.8}, {1.0, 0.8}}, 80, 100)).empty()) << "nobody waits while they are alike";
}

TEST(TransientStraggler, IsNobodyInAHealthyJobOfUnequalNodes) {
  EXPECT_TRUE(found(record({{0.5, 0.5}, {0.9, 0.9}})).empty());
}

TEST(TransientStraggler, IsNobodyWhenAllChangeAlike) {
  EXPECT_TRUE(found(record({{0.8, 0.2}, {0.8, 0.2}, {0.8, 0.2}})).empty());
}

TEST(TransientStraggler, IsNobodyWhenTheOthersGoOnAsBefore) {
  EXPECT_TRUE(found(record({{0.6, 0.6}, {0.6, 1.0}, {0.6, 0.62}})).empty());
}

TEST(TransientStraggler, IsNobodyWhenTheNodesOnlyBeginDifferently) {
  EXPECT_TRUE(found(record({{0.8, 0.4}, {0.8, 1.0}}, 0, 30)).empty());
}

TEST(TransientStraggler, CanBeSwitchedOff) {
  const AnalysisSettings settings = analysis_settings(config_of("[rule.\"node.straggler\"]\nenabled = false\n"));
  EXPECT_TRUE(found(record({{0.8, 0.4}, {0.8, 1.0}}), settings).empty());
}

}  // namespace
}  // namespace reveal::tests::transient_straggler_test
