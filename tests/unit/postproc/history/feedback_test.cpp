#include "postproc/history/feedback.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/causal_links.h"
#include "postproc/report/verdict.h"
#include "postproc/report/wording.h"
#include "report_samples.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::feedback_test {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kNoon = 1'763'640'000'000'000'000;  // 2025-11-20 12:00 UTC

Feedback said(const std::string& rule, const std::string& fingerprint = "") {
  return {.key = "key",
          .job = "train",
          .rule = rule,
          .fingerprint = fingerprint,
          .words = "was ours",
          .said_utc_ns = kNoon};
}

Finding found(const std::string& rule, Severity severity = Severity::warning) {
  Finding finding;
  finding.id = rule;
  finding.fingerprint = "f1";
  finding.sentence = "Something happened.";
  finding.severity = severity;
  return finding;
}

class FeedbackFile : public testing::Test {
 protected:
  TemporaryDirectory directory_of_test_;
  const fs::path state_ = directory_of_test_.path() / "state";
};

TEST_F(FeedbackFile, IsEmptyUntilSomethingIsSaid) {
  EXPECT_TRUE(read_feedback(state_).empty());
  EXPECT_FALSE(fs::exists(state_));
}

TEST_F(FeedbackFile, KeepsWordsForItsOwnerAloneAndReplacesThem) {
  add_feedback(state_, said("cpu.outsider"));
  add_feedback(state_, said("cpu.steal"));
  Feedback again = said("cpu.outsider");
  again.words = "a download";
  add_feedback(state_, again);
  EXPECT_EQ(read_feedback(state_), (std::vector<Feedback>{said("cpu.steal"), again}));
  struct stat status {};
  ASSERT_EQ(::stat((state_ / kFeedbackFile).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(FeedbackFile, TakesBackOnlyTheSame) {
  add_feedback(state_, said("cpu.outsider"));
  EXPECT_FALSE(take_back_feedback(state_, said("cpu.outsider", "f1")));
  EXPECT_FALSE(take_back_feedback(state_, said("cpu.steal")));
  EXPECT_TRUE(take_back_feedback(state_, said("cpu.outsider")));
  EXPECT_TRUE(read_feedback(state_).empty());
}

TEST_F(FeedbackFile, SaysWhereItCannotBeRead) {
  fs::create_directory(state_);
  std::ofstream(state_ / kFeedbackFile) << "{\"feedback\": [{\"key\": 1}]}";
  EXPECT_THROW(static_cast<void>(read_feedback(state_)), Error);
  fs::remove(state_ / kFeedbackFile);
  fs::create_symlink("/etc/passwd", state_ / kFeedbackFile);
  EXPECT_THROW(static_cast<void>(read_feedback(state_)), Error);
}

TEST_F(FeedbackFile, IsRefusedWithAnotherSchemaOrDeepJson) {
  fs::create_directory(state_);
  std::ofstream(state_ / kFeedbackFile) << R"({"schema": "reveal.feedback/2", "feedback": []})";
  EXPECT_THROW(static_cast<void>(read_feedback(state_)), Error);
  std::ofstream(state_ / kFeedbackFile) << R"({"schema": "reveal.feedback/1", "feedback": [], "more": )"
                                        << std::string(100, '[') << std::string(100, ']') << "}";
  EXPECT_THROW(static_cast<void>(read_feedback(state_)), Error);
}

TEST(Feedback, LowersFindingsOfTheRuleInRunsOfThisKey) {
  std::vector<Finding> findings = {found("cpu.outsider"), found("cpu.steal")};
  apply_feedback(std::vector{said("cpu.outsider")}, "other key", findings);
  EXPECT_EQ(findings[0].severity, Severity::warning);
  apply_feedback(std::vector{said("cpu.outsider")}, "key", findings);
  EXPECT_EQ(findings[0].severity, Severity::info);
  EXPECT_EQ(findings[0].sentence, "Something happened. Your feedback of 2025-11-20: was ours.");
  EXPECT_EQ(findings[1], found("cpu.steal"));
}

TEST(Feedback, IsShownWithItsWordsBelowThePageOfAHealthyRun) {
  Report report = samples::healthy();
  report.findings = {found("cpu.outsider"), found("gpu.xid", Severity::critical)};
  report.findings[0].nodes = {"n03"};
  report.findings[1].kind = FindingKind::audit;
  const std::vector<Feedback> all = {said("cpu.outsider"), said("gpu.xid")};
  apply_feedback(all, "key", report.findings);
  EXPECT_EQ(feedback_lines(report),
            std::vector<std::string>{"cpu.outsider on n03: Your feedback of 2025-11-20: was ours"});
  const std::string page = render_text(report, {});
  EXPECT_NE(page.find("  feedback     cpu.outsider on n03: Your feedback of 2025-11-20: was ours\n"), std::string::npos)
      << page;
}

TEST(Feedback, IsAlsoOnConsequencesThatAreNotCritical) {
  for (const Severity of_effect : {Severity::warning, Severity::critical}) {
    Report report = samples::healthy();
    report.findings = {found("net.congestion"), found("net.tcp_retrans_fault", of_effect)};
    report.findings[1].caused_by = report.findings[1].first_cause = "net.congestion";
    apply_feedback(std::vector{said("net.congestion")}, "key", report.findings);
    describe_chains(report.findings);
    const bool critical = of_effect == Severity::critical;
    EXPECT_EQ(report.findings[0].severity, critical ? Severity::critical : Severity::info);
    EXPECT_EQ(left_out_line(report),
              critical ? "1 consequence of the findings above" : "2 observations that you called no problem");
  }
}

TEST(Feedback, OfOneFindingHoldsForNoOther) {
  std::vector<Finding> findings = {found("cpu.outsider"), found("cpu.outsider")};
  findings[1].fingerprint = "f2";
  apply_feedback(std::vector{said("cpu.outsider", "f1")}, "key", findings);
  EXPECT_EQ(findings[0].severity, Severity::info);
  EXPECT_EQ(findings[1].severity, Severity::warning);
}

TEST(Feedback, LeavesCriticalFactsCritical) {
  std::vector<Finding> findings = {found("gpu.xid", Severity::critical), found("gpu.xid", Severity::critical)};
  findings[0].kind = FindingKind::audit;
  apply_feedback(std::vector{said("gpu.xid")}, "key", findings);
  EXPECT_EQ(findings[0].severity, Severity::critical);
  EXPECT_EQ(findings[1].severity, Severity::info);
  EXPECT_EQ(findings[0].feedback, "Your feedback of 2025-11-20: was ours");
}

}  // namespace
}  // namespace reveal::tests::feedback_test
