// The work that a job did not do in an interval, by the bytes that it reads and writes.
#include "postproc/diagnose/job_progress.h"

#include <gtest/gtest.h>

#include "postproc/words/quantity.h"
#include "rule_recording.h"

namespace reveal::tests::job_progress_test {
namespace {

using R = RuleRecording;

constexpr Interval kEvent{500, 650};  // 50 s to 65 s

/// A finding of cpu.outsider in the event, with a cost of 3 s by waiting.
struct Node {
  R recording;

  template <typename Question>
  [[nodiscard]] auto with_context(const Question& question) const {
    const Telemetry all = recording.with_derived();
    const RuleContext::Node node{all, recording.detection, recording.begin, recording.end, recording.events};
    return question(RuleContext(*find_rule("cpu.outsider"), node, {}, {}));
  }

  [[nodiscard]] std::optional<LostProgress> lost(Interval at = kEvent) const {
    return with_context([&](const RuleContext& context) { return lost_progress(context, at); });
  }
  [[nodiscard]] Finding refined(std::optional<double> seconds = 3, bool at_most = false) const {
    return with_context([&](const RuleContext& context) {
      Finding finding = context.finding();
      finding.intervals = {context.span(kEvent.begin, kEvent.end)};
      finding.severity = Severity::warning;
      finding.sentence = "It was slow; the job lost about 3 s. It was n1.";
      finding.impact = {.seconds = seconds, .percent = std::nullopt, .how = "it waited", .at_most = at_most};
      refine_loss(context, finding);
      return finding;
    });
  }
};

TEST(JobProgress, IsTheReadAndWrittenShareOfTheUsualAmount) {
  Node node;
  node.recording.counter("process.read_by_calls", "rank0", R::event(1000, 200));
  const auto lost = node.lost();
  ASSERT_TRUE(lost.has_value());
  EXPECT_NEAR(lost->share, 0.8, 0.01);
  EXPECT_EQ(lost->how, "the recording read 198 bytes/s instead of 990 bytes/s");
}

TEST(JobProgress, CountsAllRanksOfTheNode) {
  Node node;
  node.recording.counter("process.read_by_calls", "rank0", R::event(1000, 0))
      .counter("process.read_by_calls", "rank1", R::always(1000));
  const auto lost = node.lost();
  ASSERT_TRUE(lost.has_value());
  EXPECT_NEAR(lost->share, 0.5, 0.01);
}

TEST(JobProgress, IsNotKnownOfAJobWithoutAnEvenPace) {
  Node node;
  EXPECT_FALSE(node.lost().has_value()) << "nothing was measured";
  node.recording.counter("process.read_by_calls", "rank0", [](double second) {
    return second < 40 ? 1000 : second < 65 ? 200 : 20;
  });
  EXPECT_FALSE(node.lost().has_value()) << "its phases read different amounts";
  Node rare;
  rare.recording.counter("process.written_by_calls", "rank0",
                         [](double second) { return std::fmod(second, 40) < 5 ? 1000.0 : 0.0; });
  EXPECT_FALSE(rare.lost().has_value()) << "a checkpoint every 40 s";
}

TEST(JobProgress, IsNotKnownWithoutEnoughTimeToCompareWith) {
  Node node;
  node.recording.counter("process.read_by_calls", "rank0", R::event(1000, 200));
  EXPECT_FALSE(node.lost({0, 1200}).has_value());
  EXPECT_FALSE(node.lost({200, 1000}).has_value());
}

TEST(JobProgress, IsNotKnownWhereReadingAndWritingContradictEachOther) {
  Node node;
  node.recording.counter("process.read_by_calls", "rank0", R::event(1000, 200))
      .counter("process.written_by_calls", "rank0", R::always(500));
  EXPECT_FALSE(node.lost().has_value());
}

TEST(JobProgress, IsNotLostWhereItVariesAsMuch) {
  Node node;
  node.recording.counter("process.read_by_calls", "rank0", R::event(1000, 970));
  EXPECT_FALSE(node.lost().has_value());
}

TEST(JobProgress, ReplacesWhatARuleEstimatedByItsOwnSignal) {
  Node node;
  node.recording.counter("process.read_by_calls", "rank0", R::event(1000, 200));
  const Finding finding = node.refined();
  EXPECT_NEAR(finding.impact.seconds.value_or(0), 12, 0.2);
  EXPECT_NEAR(finding.impact.percent.value_or(0), 10, 0.2);
  EXPECT_EQ(finding.sentence, "It was slow; the job lost about " + number(*finding.impact.seconds) + " s. It was n1.");
  EXPECT_NEAR(node.refined(14, true).impact.seconds.value_or(0), 12, 0.2) << "within the bound";
  EXPECT_FALSE(node.refined(14, true).impact.at_most);
}

TEST(JobProgress, AddsNoCostWhereTheRuleSawNoneAndBreaksNoBound) {
  Node node;
  node.recording.counter("process.read_by_calls", "rank0", R::event(1000, 200));
  EXPECT_FALSE(node.refined(std::nullopt).impact.seconds.has_value());
  EXPECT_EQ(node.refined(5, true).impact.seconds, 5);
  EXPECT_TRUE(node.refined(5, true).impact.at_most);
}

}  // namespace
}  // namespace reveal::tests::job_progress_test
