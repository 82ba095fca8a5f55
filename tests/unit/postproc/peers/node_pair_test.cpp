// Jobs of two nodes: the differences that are reported, and those that are not.
#include "postproc/peers/node_pair.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/text.h"
#include "postproc/analysis/job_report.h"
#include "postproc/history/history.h"
#include "postproc/history/pair_history.h"
#include "postproc/peers/job_rule.h"
#include "rules_tried.h"

namespace reveal::tests::node_pair_test {
namespace {

constexpr std::array<std::string_view, 1> kRules = {"node.pair_differs"};

struct Metric {
  Kind kind = Kind::gauge;
  Unit unit = Unit::count;
  Scope scope = Scope::node;
  Subsystem subsystem = Subsystem::cpu;
};
const std::map<std::string, Metric> kMetrics = {
    {"cpu.user", {Kind::counter, Unit::nanoseconds}},
    {"cpu.system", {Kind::counter, Unit::nanoseconds}},
    {"cpu.steal", {Kind::counter, Unit::nanoseconds}},
    {"cpu.utilization", {Kind::gauge, Unit::ratio}},
    {"cpu.frequency", {Kind::gauge, Unit::hertz, Scope::cpu}},
    {"gpu.utilization", {Kind::gauge, Unit::percent, Scope::device, Subsystem::gpu}},
    {"gpu.sm_clock", {Kind::gauge, Unit::hertz, Scope::device, Subsystem::gpu}},
    {"job.cpu_time", {Kind::counter, Unit::nanoseconds, Scope::job, Subsystem::process}},
    {"job.wait_time", {Kind::counter, Unit::nanoseconds, Scope::job, Subsystem::process}},
    {"job.threads", {Kind::gauge, Unit::count, Scope::job, Subsystem::process}},
    {"net.rx_bytes", {Kind::counter, Unit::bytes, Scope::node, Subsystem::network}},
    {"net.tx_bytes", {Kind::counter, Unit::bytes, Scope::node, Subsystem::network}},
    {"tcp.OutSegs", {Kind::counter, Unit::count, Scope::node, Subsystem::network}},
    {"tcp.RetransSegs", {Kind::counter, Unit::count, Scope::node, Subsystem::network}},
    {"disk.writes", {Kind::counter, Unit::count, Scope::node, Subsystem::storage}},
    {"disk.write_time", {Kind::counter, Unit::nanoseconds, Scope::node, Subsystem::storage}},
    {"disk.write_bytes", {Kind::counter, Unit::bytes, Scope::node, Subsystem::storage}},
    {"vmstat.pgfault", {Kind::counter, Unit::count, Scope::node, Subsystem::memory}},
    {"vmstat.allocstall_movable", {Kind::event, Unit::count, Scope::node, Subsystem::memory}},
};

/// The increase of a metric each second (or the level of a gauge), by second of the job. Both nodes do the same.
using Course = std::function<double(double)>;
using Levels = std::map<std::string, Course>;

Course always(double level) {
  return [level](double) { return level; };
}

struct PairJob {
  PairJob() : first(work()), second(work()) {}

  static Levels work() {
    return {{"cpu.user", always(1.6e9)},
            {"cpu.system", always(0.2e9)},
            {"cpu.steal", always(0)},
            {"cpu.utilization", always(0.9)},
            {"cpu.frequency", always(2.9e9)},
            {"job.cpu_time", always(1.7e9)},
            {"job.wait_time", always(0.02e9)},
            {"job.threads", always(8)},
            {"net.rx_bytes", always(40e6)},
            {"net.tx_bytes", always(40e6)},
            {"tcp.OutSegs", always(4000)},
            {"tcp.RetransSegs", always(1)},
            {"disk.writes", always(20)},
            {"disk.write_time", always(0.04e9)},
            {"disk.write_bytes", always(2e6)},
            {"vmstat.pgfault", always(900)},
            {"vmstat.allocstall_movable", always(0)}};
  }

  [[nodiscard]] NodeProfile profile(const std::string& node, const Levels& levels, const Snapshot& facts) const {
    std::mt19937 random(node == "n1" ? 1 : 2);
    std::normal_distribution<double> noise(1, 0.03);
    Telemetry telemetry;
    telemetry.node = node;
    telemetry.begin_utc_ns = 1'700'000'000 * kSecond;
    telemetry.samples = static_cast<std::size_t>(seconds * 10);
    for (const auto& [name, course] : levels) {
      const Metric& metric = kMetrics.at(name);
      telemetry.channels.push_back({.metric = name,
                                    .instance = metric.scope == Scope::cpu ? "cpu0" : "",
                                    .kind = metric.kind,
                                    .unit = metric.unit,
                                    .scope = metric.scope,
                                    .subsystem = metric.subsystem});
      const double scale = metric.kind == Kind::gauge ? 1 : 0.1;
      for (std::size_t t = 0; t < telemetry.samples; ++t) {
        telemetry.values.push_back(scale * course(static_cast<double>(t) * 0.1) * noise(random));
      }
    }
    return profile_of(telemetry, facts);
  }

  [[nodiscard]] std::vector<Finding> findings(const std::vector<Finding>& found = {}) const {
    std::vector<NodeProfile> profiles{profile("n1", first, first_facts), profile("n2", second, second_facts)};
    for (int n = 3; n < 3 + more_nodes; ++n) profiles.push_back(profile("n" + std::to_string(n), work(), {}));
    std::vector<const NodeProfile*> nodes;
    for (const NodeProfile& one : profiles) nodes.push_back(&one);
    const PeerComparison comparison = compare_peers(nodes);
    EXPECT_EQ(comparison.groups.size(), 1U) << "they do the same work";
    auto all = run_job_rules({.comparison = comparison,
                              .nodes = nodes,
                              .job = {nodes[0]->begin_utc_ns, nodes[0]->end_utc_ns},
                              .found = found});
    std::erase_if(all, [](const Finding& one) { return one.id != kPairRule; });
    return tried(kRules, all);
  }

  Levels first, second;
  Snapshot first_facts, second_facts;
  double seconds = 120;
  int more_nodes = 0;
};

TEST(RuleNodePair, IsSilentOnEqualNodes) {
  EXPECT_TRUE(PairJob().findings().empty());
}

TEST(RuleNodePair, NamesBothValuesAndSaysWhyItNamesNoNode) {
  PairJob job;
  job.second["cpu.frequency"] = always(1.9e9);
  const auto findings = job.findings();
  ASSERT_EQ(findings.size(), 1U);
  const Finding& finding = findings[0];
  EXPECT_EQ(finding.id, "node.pair_differs");
  EXPECT_EQ(finding.severity, Severity::notice);
  EXPECT_EQ(finding.confidence, Confidence::possible);
  EXPECT_EQ(finding.nodes, (std::vector<std::string>{"n1", "n2"}));
  EXPECT_NE(finding.sentence.find("cpu clock (2.9 GHz on n1, 1.9 GHz on n2)"), std::string::npos) << finding.sentence;
  EXPECT_NE(finding.sentence.find(kNoMajority), std::string::npos) << finding.sentence;
  ASSERT_EQ(finding.evidence.size(), 2U);
  EXPECT_EQ(finding.evidence[0].node, "n1");
  EXPECT_NEAR(finding.evidence[0].observed.value_or(0), 2.9e9, 0.02e9);
  EXPECT_EQ(finding.evidence[1].node, "n2");
  EXPECT_NEAR(finding.evidence[1].observed.value_or(0), 1.9e9, 0.02e9);
  EXPECT_EQ(finding.evidence[1].unit, "Hz");
}

TEST(RuleNodePair, LeavesARankThatLogsLoadsAndWritesAlone) {
  PairJob job;
  job.first["cpu.system"] = always(0.5e9);
  job.first["cpu.user"] = always(1.7e9);
  job.first["job.cpu_time"] = always(1.9e9);
  job.first["job.threads"] = always(12);
  job.first["job.wait_time"] = always(0.3e9);  // waiting of its own threads
  job.first["net.tx_bytes"] = always(60e6);
  job.first["disk.writes"] = always(400);
  job.first["disk.write_bytes"] = always(200e6);
  job.first["disk.write_time"] = always(12e9);  // a queue of its own making
  job.first["cpu.frequency"] = always(2.7e9);   // more cores at work clock lower
  job.first["vmstat.pgfault"] = always(9000);
  EXPECT_TRUE(job.findings().empty());
}

TEST(RuleNodePair, LeavesIdleCoresThatClockLowerAlone) {
  PairJob job;
  job.second["cpu.frequency"] = always(1.4e9);
  job.second["cpu.utilization"] = always(0.6);
  EXPECT_TRUE(job.findings().empty());
  job.second["cpu.utilization"] = always(0.95);
  EXPECT_EQ(job.findings().size(), 1U) << "a slow node is as busy as the other, or more";
}

TEST(RuleNodePair, NeedsADifferenceThatIsLargeAndLasts) {
  PairJob job;
  job.second["cpu.frequency"] = always(2.65e9);
  EXPECT_TRUE(job.findings().empty()) << "nine percent";
  job.second["cpu.frequency"] = [](double second) { return second < 40 ? 1.2e9 : 2.9e9; };
  EXPECT_TRUE(job.findings().empty()) << "a third of the job";
  job.second["cpu.frequency"] = always(1.9e9);
  job.seconds = 40;
  EXPECT_TRUE(job.findings().empty()) << "a short job";
}

TEST(RuleNodePair, ComparesTheTimeOfARequestWhereBothMakeAsMany) {
  PairJob job;
  job.second["disk.write_time"] = always(0.4e9);
  const auto findings = job.findings();
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_NE(findings[0].sentence.find("time of a disk write (2 ms on n1, 20 ms on n2)"), std::string::npos)
      << findings[0].sentence;
  EXPECT_EQ(findings[0].subsystem, Subsystem::storage);
  job.second["disk.writes"] = always(200);
  job.second["disk.write_time"] = always(8e9);
  EXPECT_TRUE(job.findings().empty()) << "more writes wait for each other";
  job.second["disk.writes"] = always(20);
  job.second["disk.write_bytes"] = always(40e6);
  EXPECT_TRUE(job.findings().empty()) << "larger writes take longer";
  job.second["disk.write_bytes"] = always(2e6);
  job.second["disk.writes"] = always(1);
  EXPECT_TRUE(job.findings().empty()) << "a write a second says nothing of a disk";
}

TEST(RuleNodePair, ComparesLossesAsAShareOfTheTraffic) {
  PairJob job;
  job.first["tcp.RetransSegs"] = always(160);
  ASSERT_EQ(job.findings().size(), 1U) << "4 % of the segments";
  job.first["tcp.RetransSegs"] = always(20);
  EXPECT_TRUE(job.findings().empty()) << "half a percent is daily life";
}

TEST(RuleNodePair, TakesReclaimForAState) {
  PairJob job;
  job.second["vmstat.allocstall_movable"] = always(300);
  EXPECT_EQ(job.findings().size(), 1U);
}

TEST(RuleNodePair, FollowsARuleThatFoundTheCauseOnOneNode) {
  PairJob job;
  job.second["cpu.steal"] = always(0.6e9);
  Finding steal{.id = "cpu.steal", .severity = Severity::warning, .subsystem = Subsystem::cpu, .nodes = {"n2"}};
  auto findings = job.findings({steal});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].nodes, std::vector<std::string>{"n2"});
  EXPECT_EQ(findings[0].confidence, Confidence::likely);
  EXPECT_NE(findings[0].sentence.find("n2 is the abnormal node: cpu.steal was found there."), std::string::npos)
      << findings[0].sentence;
  steal.nodes = {"n1", "n2"};
  findings = job.findings({steal});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].nodes.size(), 2U) << "what both have tells them not apart";
}

TEST(RuleNodePair, ComparesSettingsThatMatterAndNoNames) {
  PairJob job;
  job.first_facts = {{"cpu.governor", "performance"}, {"host.id", "a"}, {"net.eth0.vendor", "0x15b3"}};
  job.second_facts = {{"cpu.governor", "powersave"}, {"host.id", "b"}, {"net.eth0.vendor", "0x8086"}};
  const auto findings = job.findings();
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, Severity::info) << "most settings cost nothing";
  EXPECT_NE(findings[0].sentence.find("cpu.governor is performance on n1 and powersave on n2"), std::string::npos)
      << findings[0].sentence;
  EXPECT_EQ(findings[0].evidence.size(), 2U);
  job.second_facts[0].second = "performance";
  EXPECT_TRUE(job.findings().empty());
}

TEST(RuleNodePair, NamesTheMitigationsOptionInsteadOfEachFlaw) {
  PairJob job;
  job.first_facts = {{"cpu.vulnerability.mds", "Vulnerable"}, {"kernel.mitigations", "off"}};
  job.second_facts = {{"cpu.vulnerability.mds", "Mitigation: Clear CPU buffers"}, {"kernel.mitigations", "auto"}};
  auto findings = job.findings();
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_NE(findings[0].sentence.find("kernel.mitigations is off on n1 and auto on n2"), std::string::npos)
      << findings[0].sentence;
  EXPECT_EQ(findings[0].sentence.find("vulnerability"), std::string::npos) << findings[0].sentence;
  job.second_facts[1].second = "off";
  findings = job.findings();
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_NE(findings[0].sentence.find("cpu.vulnerability.mds is Vulnerable on n1"), std::string::npos)
      << findings[0].sentence;
}

TEST(RuleNodePair, DoesNotHoldAnotherModelAgainstANode) {
  PairJob job;
  job.first_facts = {{"cpu.model", "EPYC 9654"}};
  job.second_facts = {{"cpu.model", "EPYC 7302"}};
  job.second["cpu.frequency"] = always(2.2e9);
  const auto findings = job.findings();
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, Severity::info);
  EXPECT_EQ(findings[0].sentence.find("clock"), std::string::npos) << findings[0].sentence;
}

TEST(RuleNodePair, DoesNotHoldAnotherModelOfGpuAgainstANode) {
  PairJob job;
  for (Levels* levels : {&job.first, &job.second}) (*levels)["gpu.utilization"] = always(97);
  job.first["gpu.sm_clock"] = always(1.98e9);
  job.second["gpu.sm_clock"] = always(1.41e9);
  job.first_facts = job.second_facts = {{"gpu.models", "NVIDIA H100"}};
  const auto found = job.findings();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("GPU clock (1.98 GHz on n1, 1.41 GHz on n2)"), std::string::npos)
      << found[0].sentence;
  job.second_facts = {{"gpu.models", "NVIDIA A100"}};
  const auto others = job.findings();
  ASSERT_EQ(others.size(), 1U);
  EXPECT_EQ(others[0].severity, Severity::info);
  EXPECT_EQ(others[0].sentence.find("GPU clock"), std::string::npos) << others[0].sentence;
  EXPECT_NE(others[0].sentence.find("NVIDIA A100 on n2"), std::string::npos) << others[0].sentence;
}

TEST(RuleNodePair, CountsWhatItDoesNotList) {
  PairJob job;
  job.second["cpu.frequency"] = always(1.9e9);
  job.second["cpu.steal"] = always(0.6e9);
  job.second["tcp.RetransSegs"] = always(160);
  job.second["disk.write_time"] = always(0.4e9);
  job.second["vmstat.allocstall_movable"] = always(300);
  for (const char* key : {"cpu.boost", "cpu.governor", "cpu.no_turbo", "cpu.smt", "irq.irqbalance"}) {
    job.first_facts.emplace_back(key, "a");
    job.second_facts.emplace_back(key, "b");
  }
  const auto found = job.findings();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find(" and 1 more. "), std::string::npos) << found[0].sentence;
  EXPECT_NE(found[0].sentence.find("; 1 more setting differs."), std::string::npos) << found[0].sentence;
  EXPECT_EQ(found[0].evidence.size(), 16U);
}

TEST(RuleNodePair, IsReadableWhateverSettingsTheTracesHold) {
  PairJob job;
  const std::string noise = "\x1b[31m\n<script>";
  for (int i = 0; i < 50'000; ++i) {
    const std::string key = "net.eth" + std::to_string(i) + ".mtu";
    job.first_facts.emplace_back(key, noise + std::string(1000, 'x'));
    job.second_facts.emplace_back(key, noise);
  }
  const auto found = job.findings();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_LT(found[0].sentence.size(), 1500U);
  EXPECT_EQ(found[0].sentence.find('\x1b'), std::string::npos);
  EXPECT_NE(found[0].sentence.find("49996 more settings differ"), std::string::npos) << found[0].sentence;
}

TEST(RuleNodePair, KnowsTheRulesThatItFollows) {
  for (const PairMetric& metric : pair_metrics()) {
    std::string_view rest = metric.rules;
    for (std::string_view rule = next_word(rest); !rule.empty(); rule = next_word(rest)) {
      EXPECT_NE(find_rule(rule), nullptr) << rule;
    }
  }
}

TEST(RuleNodePair, LeavesThreeNodesToTheirMajority) {
  PairJob job;
  job.second["cpu.frequency"] = always(1.9e9);
  job.more_nodes = 1;
  EXPECT_TRUE(job.findings().empty());
}

TEST(RuleNodePair, IsVoidWhereBothNodesAreOneMachine) {
  PairJob job;
  job.second["cpu.steal"] = always(0.6e9);
  std::vector<NodeSummary> summaries(2);
  summaries[0].profile = job.profile("n1", job.first, {});
  summaries[1].profile = job.profile("n2", job.second, {});
  for (NodeSummary& summary : summaries) {
    summary.node = summary.profile.node;
    summary.part.job.nodes = {summary.node};
  }
  const auto reported = [&] {
    const Report report = merge_summaries(summaries, {}, {});
    return std::any_of(report.findings.begin(), report.findings.end(),
                       [](const Finding& finding) { return finding.id == kPairRule; });
  };
  summaries[0].boot_id = "a";
  summaries[1].boot_id = "b";
  EXPECT_TRUE(reported());
  summaries[1].boot_id = "a";
  EXPECT_FALSE(reported()) << "each of them takes the other for an outsider";
}

TEST(RuleNodePair, ComparesNothingThatOneNodeDidNotMeasure) {
  PairJob job;
  job.first.erase("cpu.steal");
  job.second["cpu.steal"] = always(0.6e9);
  EXPECT_TRUE(job.findings().empty());
  job.second["cpu.steal"] = always(0);
  job.second["cpu.frequency"] = always(1.9e9);
  job.first.erase("cpu.utilization");
  EXPECT_TRUE(job.findings().empty()) << "nobody knows whether they worked alike";
}

RunRecord run(int number, double clock) {
  RunRecord record;
  record.run_id = std::to_string(number);
  record.key = "key";
  record.begin_utc_ns = number * kSecond;
  record.accepted = true;
  record.channels = {{"cpu.frequency", "Hz", Subsystem::cpu, Kind::gauge, clock}};
  return record;
}

TEST(PairHistory, NamesTheNodeThatIsUnlikeEarlierRuns) {
  PairJob job;
  job.second["cpu.frequency"] = always(1.9e9);
  const auto found = job.findings();
  ASSERT_EQ(found.size(), 1U);
  const RunRecord now = run(9, 2.4e9);
  const auto named = [&](const std::vector<RunRecord>& earlier) {
    auto findings = found;
    name_unusual_nodes(now, earlier, findings);
    return findings[0];
  };
  const Finding slow = named({run(1, 2.9e9), run(2, 2.88e9), run(3, 2.91e9)});
  EXPECT_EQ(slow.nodes, std::vector<std::string>{"n2"});
  EXPECT_NE(slow.sentence.find("3 earlier runs had a cpu clock of 2.9 GHz: n2 is the abnormal node."),
            std::string::npos)
      << slow.sentence;
  EXPECT_EQ(slow.sentence.find(kNoMajority), std::string::npos);
  RunRecord unmeasured = run(4, 0);
  unmeasured.channels.clear();
  EXPECT_EQ(named({run(1, 2.9e9), run(2, 2.88e9), run(3, 2.91e9), unmeasured}).sentence, slow.sentence)
      << "three runs measured it";
  EXPECT_NEAR(slow.evidence[0].expected.value_or(0), 2.9e9, 1e7);
  const Finding fast = named({run(1, 1.9e9), run(2, 1.9e9), run(3, 1.92e9)});
  EXPECT_EQ(fast.nodes, std::vector<std::string>{"n1"}) << "the usual one may be the slow one";
  EXPECT_EQ(named({run(1, 2.9e9), run(2, 2.9e9)}), found[0]) << "too few runs";
  EXPECT_EQ(named({run(1, 2.9e9), run(2, 1.9e9), run(3, 2.4e9)}), found[0]) << "they differ as the nodes do";
  EXPECT_EQ(named({run(1, 2.4e9), run(2, 2.4e9), run(3, 2.4e9)}), found[0]) << "neither is as usual";
  RunRecord ill = run(3, 2.9e9);
  ill.accepted = false;
  EXPECT_EQ(named({run(1, 2.9e9), run(2, 2.9e9), ill}), found[0]) << "a run with findings is no baseline";
}

}  // namespace
}  // namespace reveal::tests::node_pair_test
