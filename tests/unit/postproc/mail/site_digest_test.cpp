#include "postproc/mail/site_digest.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/text.h"

namespace reveal::tests::site_digest_test {
namespace {

constexpr std::int64_t kNow = 1'763'640'000'000'000'000;  // 2025-11-20 12:00:00 UTC

LedgerLine line_of(const std::string& node, int job, const std::string& owner, LedgerFinding finding) {
  LedgerLine line;
  line.node = node;
  line.job = std::to_string(job);
  line.owner = owner;
  line.begin_utc_ns = kNow - 3600 * kSecond + job * kSecond;
  line.end_utc_ns = line.begin_utc_ns + 60 * kSecond;
  line.findings.push_back(std::move(finding));
  return line;
}

LedgerFinding memory_errors() {
  return {.rule = "mem.ecc_host", .severity = Severity::critical, .seconds = 2.0, .how = LossKnown::estimated};
}

MailSettings settings_of_site() {
  MailSettings settings;
  settings.admin_threshold = Severity::warning;
  return settings;
}

TEST(SiteDigests, AreOneRowForARuleOnANodeInHoweverManyJobs) {
  std::vector<LedgerLine> lines;
  for (int job = 0; job < 500; ++job) {
    lines.push_back(line_of("n17", job, "user" + std::to_string(job % 12), memory_errors()));
  }
  const std::vector<NodeFault> faults = node_faults(lines);
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].jobs, 500U);
  EXPECT_EQ(faults[0].users, 12U);
  EXPECT_EQ(faults[0].seconds, 1000.0);
  const Digest digest = digest_of(faults, {}, kNow);
  EXPECT_EQ(digest.subject, "[reveal] critical: The node's memory has errors on n17, 500 jobs of 12 users");
  EXPECT_TRUE(
      digest.text.starts_with("critical: The node's memory has errors\n"
                              "  mem.ecc_host on n17: 500 jobs of 12 users; first 2025-11-20 11:00:00 UTC,\n"
                              "  last 2025-11-20 11:09:19 UTC; lost about 16 min 40 s\n"
                              "  1. "))
      << digest.text;
  EXPECT_NE(digest.text.find("grep -H . /sys/devices/system/edac/mc/mc*/dimm*/dimm_*   # on n17: which module"),
            std::string::npos)
      << digest.text;
  EXPECT_EQ(digest.json_name, "findings.json");
  const auto json = nlohmann::json::parse(digest.json);
  EXPECT_EQ(json["schema"], "reveal.digest/1");
  ASSERT_EQ(json["findings"].size(), 1U);
  EXPECT_EQ(json["findings"][0]["jobs"], 500);
  EXPECT_EQ(json["findings"][0]["first"], "2025-11-20T11:00:00Z");
}

TEST(SiteDigests, TellHowSureAFindingIs) {
  LedgerFinding sure = memory_errors();
  sure.confidence = Confidence::certain;
  LedgerFinding swap{.rule = "mem.swap_activity", .severity = Severity::warning, .seconds = {}};
  swap.confidence = Confidence::possible;
  LedgerFinding surer = swap;
  surer.confidence = Confidence::likely;
  const std::vector<LedgerLine> lines{line_of("n17", 1, "a", memory_errors()), line_of("n17", 2, "a", sure),
                                      line_of("n18", 1, "a", swap), line_of("n18", 2, "b", surer)};
  const std::vector<NodeFault> faults = node_faults(lines);
  ASSERT_EQ(faults.size(), 2U);
  EXPECT_EQ(faults[0].confidence, Confidence::certain);
  EXPECT_EQ(faults[1].confidence, Confidence::likely);
  const Digest digest = digest_of(faults, {}, kNow);
  EXPECT_NE(digest.text.find("lost about 4 s; measured fact\n"), std::string::npos) << digest.text;
  EXPECT_NE(digest.text.find("; cause likely\n"), std::string::npos) << digest.text;
  const auto json = nlohmann::json::parse(digest.json);
  EXPECT_EQ(json["findings"][0]["confidence"], "certain");
  EXPECT_EQ(json["findings"][0]["certainty"], "measured fact");
  const auto unknown = nlohmann::json::parse(digest_of(node_faults(std::span(lines).first(1)), {}, kNow).json);
  EXPECT_EQ(unknown["findings"][0]["certainty"], nullptr);
}

TEST(SiteDigests, CountTasksOfAnArrayAsOneJob) {
  std::vector<LedgerLine> lines;
  for (int job = 0; job < 9; ++job) lines.push_back(line_of("n17", job, "a", memory_errors()));
  for (LedgerLine& line : lines) line.array = "4710";
  const std::vector<NodeFault> faults = node_faults(lines);
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].jobs, 1U);
}

TEST(SiteDigests, NameTheWorstRuleFirstAndFoldItsOtherNodes) {
  LedgerFinding swap{.rule = "mem.swap_activity", .severity = Severity::warning, .seconds = {}};
  std::vector<LedgerLine> lines;
  for (int node = 10; node < 22; ++node) {
    lines.push_back(line_of("n" + std::to_string(node), node, "a", memory_errors()));
    lines.push_back(line_of("n" + std::to_string(node), 100 + node, "b", swap));
    lines.push_back(line_of("n" + std::to_string(node), 200 + node, "b", swap));
  }
  const Digest digest = digest_of(node_faults(lines), {}, kNow);
  EXPECT_EQ(digest.subject, "[reveal] critical: The node's memory has errors on n[10-21]; 1 more rule");
  EXPECT_NE(digest.text.find("  4 more nodes: n[18-21]\n"), std::string::npos) << digest.text;
  EXPECT_LT(digest.text.find("mem.ecc_host on n10"), digest.text.find("mem.swap_activity on n10")) << digest.text;
  EXPECT_NE(digest.text.find("lost time not measured"), std::string::npos) << digest.text;
}

TEST(SiteDigests, HaveNoMoreFindingsThanAMailServerTakes) {
  std::vector<LedgerLine> lines;
  for (int node = 0; node < 5012; ++node) lines.push_back(line_of("n" + std::to_string(node), 1, "a", memory_errors()));
  const Digest digest = digest_of(node_faults(lines), {}, kNow);
  EXPECT_EQ(nlohmann::json::parse(digest.json)["findings"].size(), 5000U);
  EXPECT_TRUE(digest.text.ends_with("Attached: findings.json with the first 5000 findings; 12 more are left out.\n"))
      << digest.text;
  EXPECT_LT(digest.text.size(), 10000U);
}

TEST(SiteDigests, NameTheOnlyUserOfAFault) {
  const std::vector<LedgerLine> lines{line_of("n17", 1, "a", memory_errors()), line_of("n17", 2, "b", memory_errors()),
                                      line_of("n18", 2, "b", memory_errors())};
  const std::vector<NodeFault> faults = node_faults(lines);
  ASSERT_EQ(faults.size(), 2U);
  EXPECT_EQ(faults[0].node, "n17");
  EXPECT_EQ(faults[0].owner, "");
  EXPECT_EQ(faults[1].owner, "b");
}

TEST(SiteDigests, HaveTheLinesThatTheJobsOfANodeFilledIn) {
  const std::vector<LedgerLine> lines{line_of("n17", 1, "a", memory_errors())};
  const Digest digest = digest_of(node_faults(lines), {{{"mem.ecc_host", "n17"}, {"typed on n17"}}}, kNow);
  EXPECT_NE(digest.text.find("  1. typed on n17\n"), std::string::npos) << digest.text;
}

TEST(SiteDigests, TakeFindingsForAdministratorsOnlyOutOfAReport) {
  const std::string report = file_text(std::string(TEST_DATA) + "/reports/outsider.json");
  MailSettings settings = settings_of_site();
  const std::vector<LedgerLine> lines = lines_for_admins(report, settings);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].node, "n01");
  ASSERT_EQ(lines[0].findings.size(), 1U);
  EXPECT_EQ(lines[0].findings[0].rule, "cpu.outsider");
  const AdminLines steps = admin_lines(report, settings);
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_FALSE(lines_of_rule("cpu.outsider", steps.at({"cpu.outsider", "n01"})).empty());
  settings.admin_threshold = Severity::notice;
  EXPECT_GE(lines_for_admins(report, settings).size(), 1U);
  EXPECT_TRUE(lines_for_admins(file_text(std::string(TEST_DATA) + "/reports/healthy.json"), settings).empty());
}

TEST(SiteDigests, HaveNoNameOfAJobOrAUser) {
  const std::string report = file_text(std::string(TEST_DATA) + "/reports/outsider.json");
  const MailSettings settings = settings_of_site();
  std::vector<LedgerLine> lines = lines_for_admins(report, settings);
  for (LedgerLine& line : lines) line.owner = "0123456789abcdef";
  const Digest digest = digest_of(node_faults(lines), admin_lines(report, settings), kNow);
  for (const char* secret : {"4711", "resnet50", "ada", "0123456789abcdef"}) {
    EXPECT_EQ(digest.text.find(secret), std::string::npos) << secret << "\n" << digest.text;
    EXPECT_EQ(digest.json.find(secret), std::string::npos) << secret;
  }
}

}  // namespace
}  // namespace reveal::tests::site_digest_test
