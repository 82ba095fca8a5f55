// reveal check: a good node, a bad one and one without facts, on a line, as JSON and as metrics.
#include "postproc/diagnose/node_check.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "config_of.h"
#include "postproc/report/node_check_page.h"
#include "rule_recording.h"

namespace reveal::tests::node_check_test {
namespace {

NodeCheck of(const Snapshot& facts, const AnalysisSettings& settings = {}) {
  RuleRecording node(2);
  node.begin = node.end = facts;
  return check_node({node.telemetry, node.detection, node.begin, node.end, node.events}, settings);
}

const Snapshot kGood = {{"clock.synchronised", "yes"},
                        {"clock_state.max_error_ns", "2000000"},
                        {"cpu.governor", "performance"},
                        {"kernel.clocksource", "tsc"}};
const Snapshot kBad = {{"clock.synchronised", "no"},
                       {"clock_state.max_error_ns", "16000000000"},
                       {"kernel.clocksource", "hpet"},
                       {"kernel.clocksources", "hpet | acpi_pm"},
                       {"since_start.seconds", "864000"},
                       {"since_start.memory_errors_corrected", "0"},
                       {"since_start.memory_errors_uncorrected", "2"}};

TEST(NodeCheck, OfAGoodNodeIsOneShortLine) {
  const NodeCheck check = of(kGood);
  EXPECT_EQ(status_of(check), NodeStatus::ok);
  EXPECT_TRUE(check_line(check).starts_with("OK - 3 checks, ")) << check_line(check);
  EXPECT_TRUE(check_line(check).ends_with(" not possible"));
}

TEST(NodeCheck, OfABadNodeTellsTheWorstFirstAndNamesTheRest) {
  const NodeCheck check = of(kBad);
  EXPECT_EQ(status_of(check), NodeStatus::critical);
  const std::string line = check_line(check);
  EXPECT_TRUE(line.starts_with("CRITICAL - The memory of n2 has had 2 uncorrected errors since")) << line;
  EXPECT_NE(line.find("(mem.ecc_host, measured fact); cpu.clocksource_not_tsc, node.clock_drift; "), std::string::npos)
      << line;
  EXPECT_EQ(line.find_first_of("|\n"), std::string::npos) << line;
  const std::string text = check_as_text(check, 80);
  EXPECT_NE(text.find("grep -H . /sys/devices/system/edac/mc"), std::string::npos) << text;
  EXPECT_NE(text.find("not possible  "), std::string::npos) << text;
}

NodeCheck check_of(const RuleRecording& node) {
  return check_node({node.telemetry, node.detection, node.begin, node.end, node.events}, {});
}

TEST(NodeCheck, PrintsNoEscapeSequenceThatIsInTheTrace) {
  RuleRecording node(2);
  node.telemetry.node = "n2\x1b[2J";
  node.begin = node.end = kBad;
  const std::string text = check_as_text(check_of(node), 80);
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
  EXPECT_NE(text.find("The memory of n2 has had 2 uncorrected errors"), std::string::npos) << text;
}

TEST(NodeCheck, SeesAFullFileSystemAndBadMemoryOfAGpuWithoutAJob) {
  const auto node = [](double available, double remap_failed) {
    RuleRecording recording(2);
    recording.gauge("fs.total", "/tmp", RuleRecording::always(100e9), "node");
    recording.gauge("fs.available", "/tmp", RuleRecording::always(available), "node");
    recording.gauge("gpu.utilization", "gpu0", RuleRecording::always(0), "node");
    recording.gauge("gpu.remap_failed", "gpu0", RuleRecording::always(remap_failed), "node");
    return check_of(recording);
  };
  const NodeCheck well = node(50e9, 0);
  EXPECT_EQ(status_of(well), NodeStatus::ok) << check_line(well);
  EXPECT_EQ(well.asked, (std::vector<std::string>{"gpu.ecc_remap", "io.fs_full"}));
  const NodeCheck full = node(0.1e9, 0);
  EXPECT_EQ(status_of(full), NodeStatus::warning);
  EXPECT_NE(check_line(full).find("/tmp on n2 is nearly full: "), std::string::npos) << check_line(full);
  const NodeCheck bad = node(50e9, 1);
  ASSERT_EQ(bad.findings.size(), 1U);
  EXPECT_EQ(bad.findings[0].id, "gpu.ecc_remap");
  EXPECT_EQ(bad.findings[0].impact.how, "none seen: it had no error while the recording ran");
}

TEST(NodeCheck, SeesLinksThatAreDownOrNarrowWithoutAJob) {
  RuleRecording node(2);
  for (const char* link : {"gpu0/link0", "gpu0/link1", "gpu1/link0", "gpu1/link1"}) {
    node.gauge("nvlink.active", link, RuleRecording::always(std::string_view(link) == "gpu1/link1" ? 0 : 1), "node");
  }
  node.begin = node.end = {{"rdma.mlx5_0.1.link_layer", "InfiniBand"},
                           {"rdma.mlx5_0.1.rate", "50 Gb/sec (1X HDR)"},
                           {"rdma.mlx5_0.1.state", "ACTIVE"}};
  const NodeCheck check = check_of(node);
  std::vector<std::string> ids;
  for (const Finding& finding : check.findings) ids.push_back(finding.id);
  EXPECT_EQ(ids, (std::vector<std::string>{"ib.link_degraded", "gpu.nvlink_down"}));
  node.begin[1].second = node.end[1].second = "200 Gb/sec (4X HDR)";
  EXPECT_EQ(check_of(node).findings.size(), 1U);
}

TEST(NodeCheck, TakesANoticeForAWarning) {
  Snapshot facts = kBad;
  facts.back().second = "0";
  EXPECT_EQ(status_of(of(facts)), NodeStatus::warning);
  EXPECT_TRUE(check_line(of(facts)).starts_with("WARNING - "));
}

TEST(NodeCheck, IsUnknownWhereNoRuleCanAnswer) {
  EXPECT_EQ(status_of(of({})), NodeStatus::unknown);
  EXPECT_TRUE(check_line(of({})).starts_with("UNKNOWN - 0 checks, "));
  EXPECT_EQ(unknown_line("reveal-collect is | missing\nhere"), "UNKNOWN - reveal-collect is / missing here");
}

TEST(NodeCheck, AsksNoRuleThatNeedsAJobOrIsSwitchedOff) {
  for (const RuleSpec* rule : rules()) {
    EXPECT_TRUE(!rule->checks_node || rule->kind == FindingKind::audit) << rule->id;
  }
  const NodeCheck check = of(kBad, analysis_settings(config_of("[rule.\"mem.ecc_host\"]\nenabled = false\n")));
  EXPECT_EQ(status_of(check), NodeStatus::warning);
  for (const std::string& id : check.asked) EXPECT_TRUE(find_rule(id)->checks_node) << id;
}

TEST(NodeCheck, IsJsonWithFindingsAsInAReport) {
  const auto json = nlohmann::json::parse(check_as_json(of(kBad)));
  EXPECT_EQ(json["schema"], "reveal.check/1");
  EXPECT_EQ(json["status"], "critical");
  EXPECT_EQ(json["exit_status"], 2);
  EXPECT_EQ(json["node"], "n2");
  ASSERT_EQ(json["findings"].size(), 3U);
  EXPECT_EQ(json["findings"][0]["id"], "mem.ecc_host");
  EXPECT_EQ(json["findings"][0]["remedy"]["admin"][0],
            "grep -H . /sys/devices/system/edac/mc/mc*/dimm*/dimm_*   # on n2: which module; with rasdaemon also "
            "ras-mc-ctl --summary");
  EXPECT_FALSE(json["not_checked"].empty());
  EXPECT_EQ(nlohmann::json::parse(unknown_as_json("why"))["exit_status"], 3);
}

TEST(NodeCheck, IsMetricsWithALineForEachRuleThatCouldAnswer) {
  const std::string text = check_as_metrics(of(kBad));
  EXPECT_NE(text.find("# TYPE reveal_check_status gauge\nreveal_check_status 2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("reveal_check_rule_status{rule=\"mem.ecc_host\"} 2\n"), std::string::npos);
  EXPECT_NE(text.find("reveal_check_rule_status{rule=\"node.clock_drift\"} 1\n"), std::string::npos);
  EXPECT_EQ(text.find("cpu.governor_powersave"), std::string::npos) << "was not possible";
  EXPECT_EQ(text.back(), '\n');
  EXPECT_NE(unknown_as_metrics(1'000'000'000).find("reveal_check_status 3\n"), std::string::npos);
}

}  // namespace
}  // namespace reveal::tests::node_check_test
