// The parts of a report.
#include "postproc/report/narrowed.h"

#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "report_samples.h"

namespace reveal::tests::narrowed_test {
namespace {

TEST(NarrowedReport, HasNothingOfOtherNodes) {
  Report report = samples::many_nodes();
  report.locality = {{.node = "n01", .places = {}, .note = "note of n01"}, {.node = "n05", .places = {}, .note = ""}};
  report.comparison.deviations = {{.node = "n01", .channel = "cpu.idle"}, {.node = "n05", .channel = "cpu.idle"}};
  report.comparison.facts = {{.key = "kernel", .nodes = {"n17"}, .value = "6.1", .usual = "6.2"}};
  report.comparison.straggler.node = "n17";
  narrow_to_node(report, "n05");
  for (const Finding& finding : report.findings) {
    EXPECT_NE(std::find(finding.nodes.begin(), finding.nodes.end(), "n05"), finding.nodes.end()) << finding.id;
  }
  ASSERT_EQ(report.locality.size(), 1U);
  EXPECT_EQ(report.locality[0].node, "n05");
  ASSERT_EQ(report.comparison.deviations.size(), 1U);
  EXPECT_EQ(report.comparison.deviations[0].node, "n05");
  EXPECT_TRUE(report.comparison.facts.empty());
  EXPECT_EQ(report.comparison.straggler.node, "");
  const std::string text = render_text(report, {.part = TextPart::everything});
  EXPECT_EQ(text.find("n17"), std::string::npos) << text;
}

TEST(NarrowedReport, SaysThatTheVerdictIsAboutOtherNodes) {
  Report report = samples::many_nodes();
  const std::string sentence = report.verdict.sentence;
  ASSERT_FALSE(report.verdict.primary.empty());
  Report other = report;
  narrow_to_node(report, report.findings.front().nodes.front());
  EXPECT_EQ(report.verdict.sentence, sentence);
  narrow_to_node(other, "n05");
  EXPECT_EQ(other.verdict.sentence, "Not about n05: " + sentence);
}

TEST(NarrowedReport, OffersTheNearestName) {
  Report report = samples::many_nodes();
  EXPECT_THROW(narrow_to_node(report, "n0"), Error);
  EXPECT_THROW(narrow_to_finding(report, "cpu.outsidr"), Error);
}

TEST(NarrowedReport, HasOneFindingByItsRule) {
  Report report = samples::many_nodes();
  const std::string id = report.findings.front().id;
  narrow_to_finding(report, id);
  ASSERT_FALSE(report.findings.empty());
  for (const Finding& finding : report.findings) EXPECT_EQ(finding.id, id);
}

}  // namespace
}  // namespace reveal::tests::narrowed_test
