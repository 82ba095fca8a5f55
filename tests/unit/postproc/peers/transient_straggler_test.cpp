// The node that was waited for during a part of the job, with two nodes or more.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <span>
#include <string>

#include "config_of.h"
#include "hdf5schema/basics/clocks.h"
#include "postproc/peers/job_rule.h"

namespace reveal::tests::transient_straggler_test {
namespace {

struct Node {
  double usual = 0.8;
  double inside = 0.8;   // from 50 s to 70 s
  double seconds = 100;  // seconds in a row, every twelve seconds
  double work = 0;       // bytes that it reads in a second; 0: that is not measured
  double work_inside = 0;
  const char* metric = "process.read_by_calls";
};

void add_work(const Node& node, double begin, double end, Telemetry& telemetry) {
  telemetry.channels.push_back({.metric = node.metric,
                                .instance = "rank0",
                                .kind = Kind::counter,
                                .unit = Unit::bytes,
                                .scope = Scope::process,
                                .subsystem = Subsystem::process});
  for (std::size_t t = 0; t < telemetry.samples; ++t) {
    const double second = static_cast<double>(t) * 0.1;
    const double work = second >= begin && second < end ? node.work_inside : node.work;
    telemetry.values.push_back(0.1 * work * (1 + 0.01 * std::sin(second)));  // what is constant has no trend
  }
}

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
        const bool inside = second >= begin && second < end && std::fmod(second - begin, 12) < node.seconds;
        const double own = inside ? node.inside : node.usual;
        const double value =
            metric == std::string("job.cpu_time") ? own + normal(random) : 0.02 + 0.01 * normal(random);
        telemetry.values.push_back(std::max(0.0, value) * 1e8);
      }
    }
    if (node.work > 0) add_work(node, begin, end, telemetry);
    profiles.push_back(profile_of(telemetry, facts));
  }
  return profiles;
}

std::vector<Finding> found(const std::vector<NodeProfile>& profiles, const AnalysisSettings& settings = {},
                           const std::vector<Finding>& on_nodes = {}, std::span<const NodeRanks> ranks = {}) {
  std::vector<const NodeProfile*> nodes;
  for (const NodeProfile& profile : profiles) nodes.push_back(&profile);
  const PeerComparison comparison = compare_peers(nodes, settings);
  auto passing =
      run_job_rules({.comparison = comparison, .nodes = nodes, .job = {}, .found = on_nodes, .ranks = ranks}, settings);
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
  EXPECT_NE(findings[0].sentence.find(" n1 waited for n2: the processes of n1 worked on 0.4"), std::string::npos)
      << findings[0].sentence;
  EXPECT_EQ(findings[0].evidence.at(0).node, "n2");
  EXPECT_EQ(findings[0].evidence.at(1).node, "n1") << "one name for one number";
}

TEST(TransientStraggler, IsNamedAmongFour) {
  const auto findings = found(record({{0.8, 0.4}, {0.8, 0.4}, {0.85, 0.95}, {0.8, 0.4}}));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].nodes, std::vector<std::string>{"n3"});
  EXPECT_NE(findings[0].sentence.find(" the other 3 nodes waited for n3: their processes worked on "),
            std::string::npos)
      << findings[0].sentence;
  EXPECT_EQ(findings[0].evidence.at(1).node, "");
  EXPECT_EQ(findings[0].evidence.at(1).feature, "median of the other 3 nodes");
}

/// Training steps of these lengths, in points of four; the second one is that of the steps from 50 s to 70 s.
StepHistory training(double usual, double inside) {
  StepTrend trend{.rank = "rank0", .point_steps = 4, .begin_utc_ns = 1'700'000'000 * kSecond, .begins = {}};
  double second = 0;
  while (second < 120) {
    const double step = second >= 50 && second < 70 ? inside : usual;
    trend.begins += std::to_string(std::llround(4e6 * step)) + ' ';
    trend.steps += 4;
    second += 4 * step;
  }
  trend.begins.pop_back();
  return {.ranks = {trend}, .slow = {}};
}

TEST(TransientStraggler, ShowsHowMuchLongerTheStepsTook) {
  const auto lines_with = [](const StepHistory& steps) {
    const NodeRanks ranks[] = {{.node = "n1", .steps = steps}, {.node = "n2", .steps = steps}};
    const auto findings = found(record({{0.8, 0.4}, {0.8, 1.0}}), {}, {}, ranks);
    EXPECT_EQ(findings.size(), 1U);
    std::vector<Evidence> lines;
    for (const Finding& finding : findings) lines = finding.evidence;
    return lines;
  };
  const auto lines = lines_with(training(0.1, 0.131));
  ASSERT_EQ(lines.size(), 3U) << "one line for all ranks";
  EXPECT_EQ(lines[0].metric, kOwnTime);
  EXPECT_EQ(lines[2].metric, "stack.step_time");
  EXPECT_EQ(lines[2].instance, "rank0");
  EXPECT_EQ(lines[2].unit, "ns");
  EXPECT_NEAR(lines[2].observed.value_or(0), 131e6, 5e6);
  EXPECT_NEAR(lines[2].expected.value_or(0), 100e6, 2e6);
  EXPECT_EQ(lines_with(training(0.1, 0.1)).size(), 2U) << "as long as usual";
  EXPECT_EQ(lines_with(training(0.1, 0.08)).size(), 2U) << "shorter";
  EXPECT_EQ(lines_with({}).size(), 2U) << "not measured";
  StepHistory unknown = training(0.1, 0.131);
  unknown.ranks[0].begins = "- - -";
  EXPECT_EQ(lines_with(unknown).size(), 2U);
}

TEST(TransientStraggler, CostsTheWorkThatTheWaitingNodeDidNotDo) {
  const auto findings = found(record({{0.8, 0.4, 100, 1e6, 0.7e6}, {0.8, 1.0, 100, 1e6, 0.7e6}}));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_NEAR(findings[0].impact.seconds.value_or(0), 6, 0.7) << "it slept for ten seconds, but not all were lost";
  EXPECT_NEAR(findings[0].impact.percent.value_or(0), 5, 0.6);
  EXPECT_TRUE(findings[0].impact.how.starts_with("the read calls (sockets included) of n1 moved 6"))
      << findings[0].impact.how;
  EXPECT_NE(findings[0].impact.how.find("KiB/s instead of 9"), std::string::npos) << findings[0].impact.how;
}

TEST(TransientStraggler, CostsTheWorkOfTheWaitingNodeInTheMiddle) {
  const auto findings = found(record({{0.8, 0.4, 100, 1e6, 0.9e6},
                                      {0.8, 0.4, 100, 1e6, 0.6e6},
                                      {0.85, 0.95, 100, 1e6, 0.1e6},
                                      {0.8, 0.4, 100, 1e6, 0.3e6}}));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_NEAR(findings[0].impact.seconds.value_or(0), 8, 0.9);
  EXPECT_TRUE(findings[0].impact.how.starts_with(
      "the read calls (sockets included) of n2, in the middle of the other 3 nodes, moved "))
      << findings[0].impact.how;
}

TEST(TransientStraggler, CostsItsOwnWorkWhereThatOfTheOthersIsNotKnown) {
  const auto findings = found(record({{0.8, 0.4}, {0.8, 1.0, 100, 1e6, 0.7e6}}));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_NEAR(findings[0].impact.seconds.value_or(0), 6, 0.7);
  EXPECT_TRUE(findings[0].impact.how.starts_with("the read calls (sockets included) of n2 moved "))
      << findings[0].impact.how;
}

TEST(TransientStraggler, CostsTheTimeOfSleepWhereTheWorkWentOn) {
  const auto findings = found(record({{0.8, 0.4, 100, 1e6, 0.99e6}, {0.8, 1.0, 100, 1e6, 0.7e6}}));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_NEAR(findings[0].impact.seconds.value_or(0), 10, 1.5);
  EXPECT_TRUE(findings[0].impact.how.starts_with("additional time in which the other nodes slept"))
      << findings[0].impact.how;
}

TEST(TransientStraggler, IsNobodyWhereAllNodesDidAsMuchAsUsual) {
  const auto named = [](double work, double waiting, double busy) {
    return found(record({{0.8, 0.4, 100, work, waiting}, {0.8, 1.0, 100, work, busy}})).size();
  };
  EXPECT_EQ(named(5e6, 5e6, 5e6), 0U);
  EXPECT_EQ(named(5e6, 4e6, 4e6), 1U);
  EXPECT_EQ(named(5e6, 5e6, 4e6), 1U) << "the node that did less may be slow";
  EXPECT_EQ(named(5e3, 5e3, 5e3), 1U) << "so few bytes may have nothing to do with its work";
  EXPECT_EQ(found(record({{0.8, 0.4, 100, 5e6, 5e6}, {0.8, 1.0}})).size(), 1U) << "of one node it is not known";
}

TEST(TransientStraggler, CostsATimeThatIsNotKnownWhereAllNodesSentAsMuchAsUsual) {
  const auto sending = [](double inside) {
    return found(record({{0.8, 0.4, 100, 5e6, inside, "net.tx_bytes"}, {0.8, 1.0, 100, 5e6, inside, "net.tx_bytes"}}));
  };
  const auto same = sending(5e6);
  ASSERT_EQ(same.size(), 1U) << "it may be the traffic of others";
  EXPECT_FALSE(same[0].impact.seconds.has_value());
  EXPECT_FALSE(same[0].impact.percent.has_value());
  EXPECT_EQ(same[0].impact.how, "not known: all nodes sent as much as usual");
  const auto less = sending(4e6);
  ASSERT_EQ(less.size(), 1U);
  EXPECT_NEAR(less[0].impact.seconds.value_or(0), 10, 1.5);
}

TEST(TransientStraggler, IsNamedEvenIfItIsWaitedForMostOfTheTime) {
  const auto findings = found(record({{0.8, 0.4}, {0.8, 1.0}}, 30, 88));
  ASSERT_EQ(findings.size(), 1U) << "the nodes are alike before and after";
  EXPECT_EQ(findings[0].nodes, std::vector<std::string>{"n2"});
  EXPECT_NEAR(second_of(findings[0].intervals.at(0).begin_utc_ns), 30, 1);
  EXPECT_NEAR(second_of(findings[0].intervals.at(0).end_utc_ns), 88, 1);
  EXPECT_TRUE(found(record({{0.4, 0.8}, {1.0, 0.8}}, 80, 100)).empty()) << "nobody waits while they are alike";
}

/// The detectors' finding on a node, without a cause.
Finding unlike_itself(const std::string& node, std::int64_t begin_second, std::int64_t end_second) {
  constexpr std::int64_t kBegin = 1'700'000'000;
  Finding finding;
  finding.id = kUnexplained;
  finding.nodes = {node};
  finding.intervals = {{(kBegin + begin_second) * kSecond, (kBegin + end_second) * kSecond}};
  return finding;
}

TEST(TransientStraggler, GivesWayToAKnownCauseAndNotToARemark) {
  Finding other = unlike_itself("n2", 0, 120);
  other.id = "net.tcp_retrans_intrinsic";
  other.severity = Severity::info;
  EXPECT_EQ(found(record({{0.8, 0.4}, {0.8, 1.0}}), {}, {other}).size(), 1U);
  other.id = "cpu.throttled";
  other.severity = Severity::warning;
  EXPECT_TRUE(found(record({{0.8, 0.4}, {0.8, 1.0}}), {}, {other}).empty());
}

/// Two nodes that meet every twelve seconds: one has more to do from 50 s to 70 s, for which the other one sleeps.
const std::vector<Node> kMeetSeldom = {{0.95, 0.0, 3.5}, {0.95, 1.0, 3.5}};

TEST(TransientStraggler, IsNamedWhereTheNodesMeetEveryFewSeconds) {
  const auto nodes = record(kMeetSeldom);
  EXPECT_TRUE(found(nodes).empty()) << "such moments alone are a habit of many jobs";
  const auto findings = found(nodes, {}, {unlike_itself("n1", 50, 71)});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].nodes, std::vector<std::string>{"n2"});
  EXPECT_EQ(findings[0].confidence, Confidence::possible);
  EXPECT_NEAR(second_of(findings[0].intervals.at(0).begin_utc_ns), 50, 2);
  EXPECT_NEAR(second_of(findings[0].intervals.at(0).end_utc_ns), 71, 2);
  EXPECT_NEAR(findings[0].impact.seconds.value_or(0), 7, 1) << "twice three and a half seconds";
  EXPECT_FALSE(findings[0].evidence.at(0).score.has_value());
}

TEST(TransientStraggler, IsNamedWhereAllNodesSentLess) {
  const auto sending = [](double usual, double waiting, double busy) {
    std::vector<Node> nodes = kMeetSeldom;
    for (Node& node : nodes) {
      node.work = usual;
      node.metric = "net.tx_bytes";
    }
    nodes[0].work_inside = waiting;
    nodes[1].work_inside = busy;
    return found(record(nodes));
  };
  const auto findings = sending(5e6, 3.5e6, 3.5e6);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].nodes, std::vector<std::string>{"n2"});
  EXPECT_NEAR(second_of(findings[0].intervals.at(0).begin_utc_ns), 50, 1);
  EXPECT_NEAR(second_of(findings[0].intervals.at(0).end_utc_ns), 70, 1);
  EXPECT_TRUE(sending(5e6, 5e6, 5e6).empty());
  EXPECT_TRUE(sending(5e6, 3e6, 5e6).empty()) << "one went on: they do not work in step";
  EXPECT_TRUE(sending(5e3, 3.5e3, 3.5e3).empty()) << "that is no traffic of the job";
}

TEST(TransientStraggler, IsNobodyWhereANodeAloneSleeps) {
  const std::vector<Finding> unlike = {unlike_itself("n1", 50, 71)};
  EXPECT_TRUE(found(record({{0.95, 0.0, 3.5}, {0.95, 0.5, 3.5}}), {}, unlike).empty()) << "the other one slept, too";
  EXPECT_TRUE(found(record({{0.95, 0.0, 3.5}, {0.95, 0.95}, {0.95, 0.95}}), {}, unlike).empty())
      << "two worked on: which of them was waited for?";
  EXPECT_TRUE(found(record({{0.95, 0.7, 3.5}, {0.95, 0.95}}), {}, unlike).empty()) << "hardly";
  EXPECT_TRUE(found(record({{0.5, 0.0, 3.5}, {0.95, 0.95}}), {}, unlike).empty()) << "they never did the same";
}

TEST(TransientStraggler, IsNobodyWhereWhatIsUsualIsNotKnown) {
  EXPECT_TRUE(found(record(kMeetSeldom, 0, 40), {}, {unlike_itself("n1", 0, 40)}).empty()) << "from the start";
  EXPECT_TRUE(found(record(kMeetSeldom, 20, 100), {}, {unlike_itself("n1", 20, 100)}).empty()) << "most of the job";
  EXPECT_TRUE(found(record(kMeetSeldom), {}, {unlike_itself("n1", 50, 53)}).empty()) << "too short";
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
