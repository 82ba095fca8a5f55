// One disturbance is one finding that contains its chain; two disturbances stay two.
#include "postproc/diagnose/causal_links.h"

#include <gtest/gtest.h>

#include <map>

#include "hdf5schema/basics/clocks.h"
#include "postproc/diagnose/rule.h"
#include "postproc/report/verdict.h"

namespace reveal::tests::causal_links_test {
namespace {

Finding seen(std::string id, double begin, double end, Severity severity = Severity::notice,
             std::optional<double> lost = std::nullopt, std::string node = "n1") {
  Finding finding;
  finding.sentence = id + " was seen.";
  finding.id = std::move(id);
  finding.nodes = {std::move(node)};
  finding.severity = severity;
  finding.confidence = Confidence::likely;
  finding.impact = {lost, lost, "as measured"};
  finding.intervals = {{static_cast<std::int64_t>(begin * 1e9), static_cast<std::int64_t>(end * 1e9)}};
  return finding;
}

const Finding& with_id(const std::vector<Finding>& findings, std::string_view id) {
  return *std::find_if(findings.begin(), findings.end(), [&](const Finding& one) { return one.id == id; });
}

std::vector<Finding> linked(std::vector<Finding> findings) {
  find_causes(findings);
  findings = merge_findings(std::move(findings));
  describe_chains(findings);
  return findings;
}

std::string cause_of(const std::vector<Finding>& findings, std::string_view id) {
  return with_id(linked(findings), id).caused_by;
}

TEST(CausalLinks, NameRulesThatExist) {
  for (const CausalLink& link : causal_links()) {
    EXPECT_NE(find_rule(link.cause), nullptr) << link.cause;
    EXPECT_NE(find_rule(link.effect), nullptr) << link.effect;
  }
}

TEST(CausalLinks, HaveNoCircle) {
  std::map<std::string_view, std::size_t> depth;  // longest way from a first cause
  for (std::size_t round = 0; round <= causal_links().size(); ++round) {
    bool grown = false;
    for (const CausalLink& link : causal_links()) {
      grown = grown || depth[link.effect] < depth[link.cause] + 1;
      depth[link.effect] = std::max(depth[link.effect], depth[link.cause] + 1);
    }
    if (!grown) return;
  }
  FAIL() << "a rule is its own cause";
}

TEST(CausalLinks, TellTheWholeChainInOrder) {
  const auto found = linked({seen("net.tcp_retrans_fault", 11.5, 31, Severity::warning, 9),
                             seen("irq.softirq_saturation", 10.4, 30), seen("irq.imbalance", 10, 30)});
  EXPECT_EQ(with_id(found, "irq.softirq_saturation").caused_by, "irq.imbalance");
  EXPECT_EQ(with_id(found, "net.tcp_retrans_fault").caused_by, "irq.softirq_saturation");
  const Finding& first = with_id(found, "irq.imbalance");
  EXPECT_EQ(first.caused_by, "");
  EXPECT_EQ(first.sentence,
            "irq.imbalance was seen. This led to a cpu that could not handle its packets in time, then lost packets "
            "that TCP sent again.");
  EXPECT_EQ(first.severity, Severity::warning);
  EXPECT_EQ(first.impact.seconds, 9);
  EXPECT_EQ(first.impact.how, "cost of the consequence net.tcp_retrans_fault: as measured");
}

TEST(CausalLinks, TellAChainAsPossibleWhereItsFirstCauseIs) {
  std::vector<Finding> findings{seen("irq.softirq_saturation", 10.4, 30), seen("irq.imbalance", 10, 30)};
  findings[1].confidence = Confidence::possible;
  EXPECT_EQ(with_id(linked(findings), "irq.imbalance").sentence,
            "irq.imbalance was seen. This may have led to a cpu that could not handle its packets in time.");
}

TEST(CausalLinks, SayNothingOfASettingAndItsReading) {
  const auto found = linked({seen("mem.hugepages_inconsistent", 0, 60), seen("node.differs", 0, 60)});
  EXPECT_EQ(with_id(found, "node.differs").caused_by, "mem.hugepages_inconsistent");
  EXPECT_EQ(with_id(found, "mem.hugepages_inconsistent").sentence, "mem.hugepages_inconsistent was seen.");
  const auto hot = linked({seen("cpu.thermal_throttle", 17, 47), seen("cpu.freq_oscillation", 17, 26)});
  EXPECT_EQ(with_id(hot, "cpu.freq_oscillation").caused_by, "cpu.thermal_throttle");
  EXPECT_EQ(with_id(hot, "cpu.thermal_throttle").sentence, "cpu.thermal_throttle was seen.");
}

TEST(CausalLinks, KeepTheCausesOwnCostWhereItIsGreater) {
  const auto found = linked(
      {seen("mem.swap_activity", 10, 30, Severity::critical, 12), seen("io.slow_reads", 12, 28, Severity::warning, 3)});
  EXPECT_EQ(with_id(found, "mem.swap_activity").impact.seconds, 12);
  EXPECT_EQ(with_id(found, "mem.swap_activity").severity, Severity::critical);
}

TEST(CausalLinks, LetNoUpperBoundReplaceAnEstimate) {
  Finding starved = seen("gpu.starved_io", 12, 28, Severity::warning, 14);
  starved.impact.at_most = true;
  const auto known = linked({seen("io.slow_reads", 10, 30, Severity::warning, 3), starved});
  EXPECT_EQ(with_id(known, "io.slow_reads").impact.seconds, 3);
  const auto unknown = linked({seen("io.slow_reads", 10, 30, Severity::warning), starved});
  EXPECT_EQ(with_id(unknown, "io.slow_reads").impact.seconds, 14);
  EXPECT_TRUE(with_id(unknown, "io.slow_reads").impact.at_most);
}

TEST(CausalLinks, AllowForTheTimeBetweenReadingsOfHeat) {
  const Finding heat = seen("cpu.thermal_throttle", 20, 50);
  EXPECT_EQ(cause_of({heat, seen("cpu.freq_oscillation", 16, 25)}, "cpu.freq_oscillation"), "cpu.thermal_throttle");
  EXPECT_EQ(cause_of({heat, seen("cpu.freq_oscillation", 11, 25)}, "cpu.freq_oscillation"), "");
}

TEST(CausalLinks, LeadFromReadsAndInterruptsToTheClock) {
  const std::string effect = "cpu.freq_oscillation";
  for (const char* cause : {"io.local_disk_saturated", "io.slow_reads", "node.noisy_neighbour",
                            "irq.softirq_saturation", "irq.imbalance"}) {
    const Finding before = seen(cause, 20, 44, Severity::warning, 8);
    const auto found = linked({seen(effect, 21, 46), before});
    EXPECT_EQ(with_id(found, effect).first_cause, cause);
    const Finding& first = with_id(found, cause);
    EXPECT_EQ(first.first_cause, "");
    EXPECT_TRUE(first.sentence.starts_with(std::string(cause) + " was seen. This led to cpu clocks that changed with"))
        << first.sentence;
    EXPECT_EQ(cause_of({seen(effect, 16.5, 45), before}, effect), cause) << "a clock shows in the seconds around it";
    EXPECT_EQ(cause_of({seen(effect, 10, 44), before}, effect), "") << cause << " came later";
    EXPECT_EQ(cause_of({seen(effect, 36, 44), before}, effect), "") << cause << " began long before";
    EXPECT_EQ(cause_of({seen(effect, 70, 90), before}, effect), "") << cause << " was over";
    EXPECT_EQ(cause_of({seen(effect, 21, 46, Severity::notice, {}, "n2"), before}, effect), "") << "another node";
  }
}

TEST(CausalLinks, NeedTheSamePlaceAndTime) {
  const Finding swap = seen("mem.swap_activity", 10, 30);
  EXPECT_EQ(cause_of({swap, seen("io.slow_reads", 12, 28)}, "io.slow_reads"), "mem.swap_activity");
  EXPECT_EQ(cause_of({swap, seen("io.slow_reads", 9.5, 33)}, "io.slow_reads"), "mem.swap_activity");  // the edges
  EXPECT_EQ(cause_of({swap, seen("io.slow_reads", 12, 28, Severity::notice, {}, "n2")}, "io.slow_reads"), "");
  EXPECT_EQ(cause_of({swap, seen("io.slow_reads", 5, 30)}, "io.slow_reads"), "");   // began before
  EXPECT_EQ(cause_of({swap, seen("io.slow_reads", 20, 90)}, "io.slow_reads"), "");  // lasts on its own
  EXPECT_EQ(cause_of({swap, seen("io.slow_reads", 60, 70)}, "io.slow_reads"), "");  // another time
  EXPECT_EQ(cause_of({swap, seen("cpu.outsider", 12, 28)}, "cpu.outsider"), "");    // no link
}

TEST(CausalLinks, LeaveAFindingAloneThatAlsoCameWithoutTheCause) {
  Finding reads = seen("io.slow_reads", 12, 28);
  reads.intervals.push_back({50 * kSecond, 60 * kSecond});
  EXPECT_EQ(cause_of({seen("mem.swap_activity", 10, 30), reads}, "io.slow_reads"), "");
}

TEST(CausalLinks, KeepTheIntervalApartThatHasNoCause) {
  const auto found = linked({seen("mem.swap_activity", 10, 30), seen("io.local_disk_saturated", 11, 29),
                             seen("io.local_disk_saturated", 60, 75, Severity::warning, 5)});
  ASSERT_EQ(found.size(), 3U);
  const Finding& own = with_id(found, "io.local_disk_saturated");  // an independent finding comes first
  EXPECT_EQ(own.caused_by, "");
  EXPECT_EQ(own.intervals.front().begin_utc_ns, 60 * kSecond);
  EXPECT_TRUE(effects_of(own, found).empty());
  const auto effects = effects_of(with_id(found, "mem.swap_activity"), found);
  ASSERT_EQ(effects.size(), 1U);
  EXPECT_EQ(effects.front()->intervals.front().begin_utc_ns, 11 * kSecond);
}

TEST(CausalLinks, LoseNoFindingWhoseCauseIsOftenThere) {
  const auto found = linked({seen("mem.swap_activity", 10, 30), seen("io.local_disk_saturated", 11, 29),
                             seen("io.slow_reads", 12, 28, Severity::critical, 9),
                             seen("io.local_disk_saturated", 60, 75), seen("io.slow_reads", 61, 74)});
  std::size_t reported = 0;
  for (const Finding& finding : found) {
    if (finding.first_cause.empty()) reported += 1 + effects_of(finding, found).size();
  }
  EXPECT_EQ(reported, found.size()) << "each stands for itself or is part of one chain";
  EXPECT_EQ(with_id(found, "mem.swap_activity").severity, Severity::critical);
  EXPECT_EQ(effects_of(with_id(found, "io.local_disk_saturated"), found).size(), 1U);
}

TEST(CausalLinks, BlameNoOtherNode) {
  const auto found = linked({seen("mem.swap_activity", 10, 30), seen("io.local_disk_saturated", 11, 29),
                             seen("io.local_disk_saturated", 11, 29, Severity::notice, {}, "n2"),
                             seen("io.slow_reads", 12, 28, Severity::warning, 9, "n2")});
  EXPECT_EQ(effects_of(with_id(found, "mem.swap_activity"), found).size(), 1U);
  EXPECT_EQ(with_id(found, "mem.swap_activity").severity, Severity::notice);
  EXPECT_EQ(effects_of(with_id(found, "io.local_disk_saturated"), found).at(0)->nodes, std::vector<std::string>{"n2"});
}

TEST(CausalLinks, KeepWhatComesAndGoesWithItsCause) {
  const auto found = linked({seen("irq.softirq_saturation", 0, 300), seen("net.tcp_retrans_fault", 5, 30),
                             seen("net.tcp_retrans_fault", 100, 130)});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(with_id(found, "net.tcp_retrans_fault").caused_by, "irq.softirq_saturation");
}

TEST(CausalLinks, ExplainAStragglerByStatesOfItsNode) {
  const Finding straggler = seen("node.straggler", 10, 60);
  for (const char* cause : {"cpu.governor_powersave", "cpu.power_cap", "cpu.os_jitter", "node.noisy_neighbour",
                            "numa.mem_remote", "irq.softirq_saturation", "io.nfs_slow_server", "io.slow_reads",
                            "mem.reclaim_thrash", "mem.writeback_stall", "pcie.link_downtrained"}) {
    EXPECT_EQ(cause_of({seen(cause, 9, 61), straggler}, "node.straggler"), cause);
    EXPECT_EQ(cause_of({seen(cause, 9, 61, Severity::notice, {}, "n2"), straggler}, "node.straggler"), "") << cause;
  }
}

TEST(CausalLinks, ExplainNoStragglerByASettingThatOtherNodesHaveToo) {
  const Finding straggler = seen("node.straggler", 10, 60);
  const Finding own = seen("cpu.power_cap", 0, 60);
  EXPECT_EQ(cause_of({own, seen("cpu.power_cap", 0, 60, Severity::notice, {}, "n2"), straggler}, "node.straggler"), "");
  EXPECT_EQ(cause_of({own, seen("cpu.power_cap", 0, 15, Severity::notice, {}, "n2"), straggler}, "node.straggler"),
            "cpu.power_cap")
      << "the other had it at another time";
}

TEST(CausalLinks, LeadFromWanderingRanksAndLeaksToTheirMemory) {
  EXPECT_EQ(cause_of({seen("numa.unbound_migrating", 0, 60), seen("numa.mem_remote", 0, 60)}, "numa.mem_remote"),
            "numa.unbound_migrating");
  const Finding pile = seen("numa.single_node_pileup", 50, 60);
  EXPECT_EQ(cause_of({seen("mem.leak_oom_risk", 10, 60, Severity::warning), pile}, "numa.single_node_pileup"),
            "mem.leak_oom_risk");
  EXPECT_EQ(cause_of({seen("mem.leak_oom_risk", 10, 60), pile}, "numa.single_node_pileup"), "")
      << "memory that does not run out";
}

TEST(CausalLinks, LeadFromImportsToTheStepsThatWaitedForThem) {
  for (const char* effect : {"stack.slow_steps", "stack.late_rank", "stack.stall"}) {
    EXPECT_EQ(cause_of({seen("stack.import_storm", 40, 70), seen(effect, 41, 71)}, effect), "stack.import_storm");
    EXPECT_EQ(cause_of({seen("stack.import_storm", 0, 20), seen(effect, 41, 71)}, effect), "") << "at its start";
  }
}

TEST(CausalLinks, AllowForTheTimeThatWritingBackTakes) {
  EXPECT_EQ(cause_of({seen("mem.writeback_stall", 50, 60), seen("io.local_disk_saturated", 45, 85)},
                     "io.local_disk_saturated"),
            "mem.writeback_stall");
}

TEST(CausalLinks, NeedTheSameDeviceWhereTheLinkIsOneOfDevices) {
  Finding errors = seen("ib.link_errors", 10, 30);
  Finding degraded = seen("ib.link_degraded", 12, 29);
  errors.instances = {"mlx5_0:1"};
  degraded.instances = {"mlx5_1:1"};
  EXPECT_EQ(cause_of({errors, degraded}, "ib.link_degraded"), "");
  degraded.instances = {"mlx5_0:1"};
  EXPECT_EQ(cause_of({errors, degraded}, "ib.link_degraded"), "ib.link_errors");
}

TEST(CausalLinks, LookAtEachIntervalOfTheCause) {
  Finding habit = seen("mem.writeback_stall", 200, 210);
  habit.intervals.push_back({kSecond, 5 * kSecond});
  EXPECT_EQ(cause_of({habit, seen("io.local_disk_saturated", 201, 215)}, "io.local_disk_saturated"),
            "mem.writeback_stall");
}

TEST(CausalLinks, UniteTheIntervalsOfACause) {
  std::vector<Finding> findings = {seen("io.slow_reads", 10, 30)};
  for (int second = 10; second < 30; second += 4) findings.push_back(seen("mem.swap_activity", second, second + 1));
  EXPECT_EQ(cause_of(findings, "io.slow_reads"), "mem.swap_activity");
}

TEST(CausalLinks, DoNotBlameWhatHasBeenThereAllTheTime) {
  const Finding imbalance = seen("irq.imbalance", 0, 120);
  EXPECT_EQ(cause_of({imbalance, seen("net.tcp_retrans_fault", 60, 80)}, "net.tcp_retrans_fault"), "");
  Finding leak = seen("mem.leak_oom_risk", 0, 120);
  EXPECT_EQ(cause_of({leak, seen("mem.swap_activity", 90, 120)}, "mem.swap_activity"), "") << "a remark";
  leak.severity = Severity::warning;
  EXPECT_EQ(cause_of({leak, seen("mem.swap_activity", 90, 120)}, "mem.swap_activity"), "mem.leak_oom_risk");
}

TEST(CausalLinks, CountEachSecondOnce) {
  Finding bursts = seen("mem.swap_activity", 0, 1);
  for (int second = 2; second < 20; second += 2) bursts.intervals.push_back({second * kSecond, (second + 1) * kSecond});
  EXPECT_EQ(cause_of({bursts, seen("io.slow_reads", 0, 70)}, "io.slow_reads"), "");
  EXPECT_EQ(cause_of({bursts, seen("io.slow_reads", 0, 24)}, "io.slow_reads"), "mem.swap_activity");
}

TEST(CausalLinks, SurviveACircleInSomebodysFile) {
  std::vector<Finding> circle = {seen("a", 0, 1), seen("b", 0, 1), seen("c", 0, 1)};
  circle[0].caused_by = circle[0].first_cause = "b";
  circle[1].caused_by = circle[1].first_cause = "a";
  circle[2].caused_by = circle[2].first_cause = "c";
  for (const Finding& finding : circle) EXPECT_TRUE(effects_of(finding, circle).empty());
}

TEST(CausalLinks, TakeAMomentForAnEffect) {
  EXPECT_EQ(cause_of({seen("mem.swap_activity", 10, 30), seen("mem.oom_killed", 18, 18)}, "mem.oom_killed"),
            "mem.swap_activity");
}

TEST(CausalLinks, MakeOneShownFindingOfAChainAndTwoOfTwoFaults) {
  Report report;
  report.job.nodes = {"n1"};
  report.job.end_utc_ns = 120 * kSecond;
  report.findings = linked({seen("mem.swap_activity", 10, 30, Severity::notice, 1),
                            seen("io.slow_reads", 12, 28, Severity::critical, 12),
                            seen("cpu.outsider", 50, 60, Severity::warning, 3)});
  judge(report, {});
  EXPECT_EQ(report.verdict.primary, "mem.swap_activity");
  std::vector<std::string> shown;
  for (const Finding* finding : shown_findings(report)) shown.push_back(finding->id);
  EXPECT_EQ(shown, (std::vector<std::string>{"mem.swap_activity", "cpu.outsider"}));
  EXPECT_EQ(left_out_line(report), "1 consequence of the findings above");
  EXPECT_EQ(report.findings.back().id, "io.slow_reads");
}

}  // namespace
}  // namespace reveal::tests::causal_links_test
