// The work that a job did not do in an interval, by the bytes that it reads and writes.
#include "postproc/diagnose/job_progress.h"

#include <gtest/gtest.h>

#include "postproc/diagnose/interval_finding.h"
#include "rule_recording.h"

namespace reveal::tests::job_progress_test {
namespace {

using R = RuleRecording;

constexpr Interval kEvent{500, 650};  // 50 s to 65 s

/// The event as a finding of cpu.outsider.
struct Node {
  R recording;

  template <typename Question>
  [[nodiscard]] auto with_context(const Question& question) const {
    const Telemetry all = recording.with_derived();
    JobProgress progress;
    RuleContext::Node node{all, recording.detection, recording.begin, recording.end, recording.events};
    node.progress = &progress;
    return question(RuleContext(*find_rule("cpu.outsider"), node, {}, {}));
  }

  [[nodiscard]] std::optional<WorkPace> slower(Interval at = kEvent) const {
    return with_context([&](const RuleContext& context) { return slower_work(context, at); });
  }
  [[nodiscard]] Finding finding(std::optional<double> seconds) const {
    return with_context([&](const RuleContext& context) {
      Finding finding = finding_at(context, kEvent);
      set_loss(context, finding, seconds, "it waited");
      return finding;
    });
  }
  [[nodiscard]] Finding finding_of_at_most(double seconds) const {
    return with_context([&](const RuleContext& context) {
      Finding finding = finding_at(context, kEvent);
      set_most_loss(context, finding, seconds, "it waited");
      return finding;
    });
  }
};

TEST(JobProgress, IsTheReadAndWrittenShareOfTheUsualAmount) {
  Node node;
  node.recording.counter("process.read_by_calls", "rank0", R::event(1000, 200));
  const auto pace = node.slower();
  ASSERT_TRUE(pace.has_value());
  EXPECT_NEAR(pace->lost(), 0.8, 0.01);
  EXPECT_EQ(pace->words("the job"),
            "the read calls (sockets included) of the job moved 198 bytes/s instead of 990 bytes/s");
}

TEST(JobProgress, TellsNoFallWhereThereWasNone) {
  const auto words = [](double inside) {
    return WorkPace{.calls = "read", .inside = inside, .usual = 7e6, .spread = 0.1}.words("the job");
  };
  EXPECT_EQ(words(8e6),
            "the read calls (sockets included) of the job were no slower: 7.63 MiB/s, otherwise 6.68 MiB/s");
  EXPECT_EQ(words(6.8e6),
            "the read calls (sockets included) of the job moved hardly less: 6.48 MiB/s, otherwise 6.68 MiB/s");
}

TEST(JobProgress, CountsAllRanksOfTheNode) {
  Node node;
  node.recording.counter("process.read_by_calls", "rank0", R::event(1000, 0))
      .counter("process.read_by_calls", "rank1", R::always(1000));
  const auto pace = node.slower();
  ASSERT_TRUE(pace.has_value());
  EXPECT_NEAR(pace->lost(), 0.5, 0.01);
}

TEST(JobProgress, IsNotKnownOfAJobWithoutAnEvenPace) {
  Node node;
  EXPECT_FALSE(node.slower().has_value()) << "nothing was measured";
  node.recording.counter("process.read_by_calls", "rank0", [](double second) {
    return second < 40 ? 1000 : second < 65 ? 200 : 20;
  });
  EXPECT_FALSE(node.slower().has_value()) << "its phases read different amounts";
  Node rare;
  rare.recording.counter("process.written_by_calls", "rank0",
                         [](double second) { return std::fmod(second, 40) < 5 ? 1000.0 : 0.0; });
  EXPECT_FALSE(rare.slower().has_value()) << "a checkpoint every 40 s";
}

TEST(JobProgress, IsNotKnownWithoutEnoughTimeToCompareWith) {
  Node node;
  node.recording.counter("process.read_by_calls", "rank0", R::event(1000, 200));
  EXPECT_FALSE(node.slower({0, 1200}).has_value());
  EXPECT_FALSE(node.slower({200, 1000}).has_value());
}

TEST(JobProgress, IsNotKnownWhereReadingAndWritingContradictEachOther) {
  Node node;
  node.recording.counter("process.read_by_calls", "rank0", R::event(1000, 200))
      .counter("process.written_by_calls", "rank0", R::always(500));
  EXPECT_FALSE(node.slower().has_value());
}

TEST(JobProgress, IsNotLostWhereItVariesAsMuch) {
  Node node;
  node.recording.counter("process.read_by_calls", "rank0", R::event(1000, 970));
  EXPECT_FALSE(node.slower().has_value());
}

TEST(JobProgress, WentOnWhereAsMuchWasDoneAsUsual) {
  const auto went_on = [](double usual, double inside) {
    Node node;
    node.recording.counter("process.read_by_calls", "rank0", R::event(usual, inside));
    return node.with_context([](const RuleContext& context) { return work_that_went_on(context, kEvent).has_value(); });
  };
  EXPECT_TRUE(went_on(5e6, 4.9e6));
  EXPECT_TRUE(went_on(5e6, 6e6));
  EXPECT_FALSE(went_on(5e6, 4.6e6));
  EXPECT_FALSE(went_on(5e6, 9e6)) << "that is other work";
  EXPECT_FALSE(went_on(5e3, 5e3)) << "a log may be written whatever the job does";
  const Node unmeasured;
  EXPECT_FALSE(unmeasured.with_context([](const RuleContext& context) {
    return work_that_went_on(context, kEvent).has_value();
  })) << "nothing was measured";
}

TEST(JobProgress, WentOnOnlyWhereNoneOfItsCoursesFell) {
  const auto went_on = [](double inside) {
    Node node;
    node.recording.counter("process.read_by_calls", "rank0", R::event(5e6, inside))
        .counter("process.written_by_calls", "rank0", R::always(1.1e6));
    return node.with_context([](const RuleContext& context) { return work_that_went_on(context, kEvent).has_value(); });
  };
  EXPECT_TRUE(went_on(5e6));
  EXPECT_FALSE(went_on(4.1e6)) << "the log is as long as usual, but less was read";
}

TEST(JobProgress, IsComparedOverShorterTimesWhereTheRestIsShort) {
  std::vector<double> rate(300, 100.0);
  std::fill(rate.begin() + 100, rate.begin() + 200, 50.0);
  const WorkCourse work[] = {{"read", rate}};
  EXPECT_FALSE(work_pace(work, {100, 200}).has_value());
  const auto pace = work_pace(work, {100, 200}, 0, 50);
  ASSERT_TRUE(pace.has_value());
  EXPECT_NEAR(pace->lost(), 0.5, 1e-9);
}

TEST(JobProgress, IsAddedUpOnceForAllFindingsOfANode) {
  Node node;
  node.recording.counter("process.read_by_calls", "rank0", R::event(1000, 200));
  const bool equal = node.with_context([](const RuleContext& context) {
    const auto first = slower_work(context, kEvent);
    EXPECT_FALSE(slower_work(context, {100, 250}).has_value()) << "another interval";
    const auto again = slower_work(context, kEvent);
    return first && again && first->inside == again->inside && first->usual == again->usual;
  });
  EXPECT_TRUE(equal);
}

TEST(JobProgress, ReplacesWhatARuleEstimatedByItsOwnSignal) {
  Node node;
  EXPECT_EQ(node.finding(3).impact.seconds, 3) << "nothing was measured";
  EXPECT_EQ(node.finding(3).impact.how, "it waited");
  node.recording.counter("process.read_by_calls", "rank0", R::event(1000, 200));
  const Finding finding = node.finding(3);
  EXPECT_NEAR(finding.impact.seconds.value_or(0), 12, 0.2);
  EXPECT_NEAR(finding.impact.percent.value_or(0), 10, 0.2);
  EXPECT_EQ(finding.impact.how,
            "the read calls (sockets included) of the recording moved 198 bytes/s instead of 990 bytes/s");
  EXPECT_EQ(finding.severity, Severity::warning);
  EXPECT_NEAR(node.finding_of_at_most(14).impact.seconds.value_or(0), 12, 0.2) << "within the bound";
  EXPECT_FALSE(node.finding_of_at_most(14).impact.at_most);
}

TEST(JobProgress, AddsNoCostWhereTheRuleSawNoneAndBreaksNoBound) {
  Node node;
  node.recording.counter("process.read_by_calls", "rank0", R::event(1000, 200));
  EXPECT_FALSE(node.finding(std::nullopt).impact.seconds.has_value());
  EXPECT_EQ(node.finding(0).impact.how, "none seen: it waited");
  EXPECT_EQ(node.finding_of_at_most(5).impact.seconds, 5);
  EXPECT_TRUE(node.finding_of_at_most(5).impact.at_most);
}

TEST(JobProgress, CountsNotForSeveralIntervals) {
  Node node;
  node.recording.counter("process.read_by_calls", "rank0", R::event(1000, 200));
  const double seconds = node.with_context([](const RuleContext& context) {
    Finding finding = finding_at(context, kEvent);
    finding.intervals.push_back(context.span(800, 850));
    set_loss(context, finding, 3, "it waited");
    return *finding.impact.seconds;
  });
  EXPECT_EQ(seconds, 3);
}

/// Processes outside the job take half of its cpu for 15 s, and the job reads a fifth of its usual amount.
TEST(JobProgress, IsTheCostOfAFindingInEachPlaceThatTellsIt) {
  R recording;
  recording.gauge("job.outsider_cpu", "", R::event(0.01, 0.5))
      .counter("job.cpu_time", "", R::event(1e9, 0.5e9))
      .counter("job.wait_time", "", R::event(0.01e9, 0.5e9))
      .counter("process.read_by_calls", "rank0", R::event(1000, 200));
  const auto findings = recording.findings("cpu.outsider");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_NEAR(findings[0].impact.seconds.value_or(0), 12, 1);
  EXPECT_EQ(findings[0].sentence.find("lost"), std::string::npos) << "the cost is told once: " << findings[0].sentence;
}

}  // namespace
}  // namespace reveal::tests::job_progress_test
