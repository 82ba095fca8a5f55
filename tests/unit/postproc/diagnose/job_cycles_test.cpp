// The cycles of a job that reads its data in bursts, and what an interval cost it by them.
#include "postproc/diagnose/job_cycles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "postproc/diagnose/interval_finding.h"
#include "postproc/diagnose/job_progress.h"
#include "rule_recording.h"

namespace reveal::tests::job_cycles_test {
namespace {

using R = RuleRecording;

constexpr Interval kEvent{500, 650};  // 50 s to 65 s

/// A job that reads 50 MB/s for .3 s every 4 s of its own time, and 5 MB/s else; from 50 s to 65 s it is slowed by
/// `slowed`, a part of 1.
R::Course job(double slowed) {
  return [slowed](double second) {
    const double speed = second >= 50 && second < 65 ? 1 - slowed : 1;
    const double own = second - slowed * std::clamp(second - 50, 0.0, 15.0);
    return speed * (std::fmod(own, 4) < 0.3 ? 50e6 : 5e6);
  };
}

std::vector<WorkCourse> recorded(const R::Course& course, std::size_t samples = 1200) {
  std::vector<double> rate(samples);
  for (std::size_t t = 0; t < samples; ++t) rate[t] = course(0.1 * static_cast<double>(t));
  return {{"read", rate}};
}

TEST(JobCycles, TellsTheTimeByWhichTheyTookLonger) {
  const auto cycles = work_cycles(recorded(job(0.2)), kEvent, 20);
  ASSERT_TRUE(cycles.has_value());
  EXPECT_EQ(cycles->count, 4) << "48 s to 67 s";
  EXPECT_NEAR(cycles->usual, 40, 1);
  EXPECT_NEAR(cycles->lost(), 30, 2);
  EXPECT_TRUE(cycles->slower());
  EXPECT_EQ(cycles->words("the job", 0.1),
            "4 cycles of the job, from burst to burst of its read calls, took 19 s instead of 16 s");
}

TEST(JobCycles, AreAllThatTheIntervalTouches) {
  const auto cycles = work_cycles(recorded(job(0.2)), {540, 650}, 20);  // seen 4 s late
  ASSERT_TRUE(cycles.has_value());
  EXPECT_NEAR(cycles->lost(), 25, 4) << "less the cycle before";
}

TEST(JobCycles, DidNotTakeLongerWhereTheJobWentOn) {
  const auto cycles = work_cycles(recorded(job(0)), kEvent, 20);
  ASSERT_TRUE(cycles.has_value());
  EXPECT_FALSE(cycles->slower());
  EXPECT_NEAR(cycles->lost(), 0, 1);
}

TEST(JobCycles, AreNoneWithoutBursts) {
  EXPECT_FALSE(work_cycles(recorded(R::event(5e6, 4e6)), kEvent, 20).has_value());
  EXPECT_FALSE(work_cycles({}, kEvent, 20).has_value());
  EXPECT_FALSE(work_cycles(recorded(job(0.2)), {500, 500}, 20).has_value()) << "an empty interval";
  EXPECT_FALSE(work_cycles(recorded(R::always(0)), kEvent, 20).has_value());
}

TEST(JobCycles, AreNoneWhereTheyAreUneven) {
  const auto later_and_later = [](double second) { return std::fmod(second * second / 40, 1) < 0.1 ? 50e6 : 5e6; };
  EXPECT_FALSE(work_cycles(recorded(later_and_later), kEvent, 20).has_value());
}

TEST(JobCycles, AreNoneThatATimerMakes) {
  const auto timer = [](double second) {
    if (std::fmod(second, 4) < 0.3) return 50e6;
    return second >= 50 && second < 65 ? 2.5e6 : 5e6;
  };
  EXPECT_FALSE(work_cycles(recorded(timer), kEvent, 20).has_value())
      << "the work between two bursts is less than usual";
}

TEST(JobCycles, AreNoneWithTooFewToCompareWith) {
  EXPECT_TRUE(work_cycles(recorded(job(0.2), 700), kEvent, 20).has_value());
  EXPECT_FALSE(work_cycles(recorded(job(0.2), 640), kEvent, 20).has_value()) << "no burst after it";
  EXPECT_FALSE(work_cycles(recorded(job(0.2)), {100, 1150}, 20).has_value());
  EXPECT_FALSE(work_cycles(recorded(job(0.2)), {500, 530}, 20).has_value()) << "cycles longer than the interval";
}

TEST(JobCycles, AreNoneWhereSamplesAreMissing) {
  auto work = recorded(job(0.2));
  work[0].rate[560] = std::nan("");
  EXPECT_FALSE(work_cycles(work, kEvent, 20).has_value());
  work = recorded(job(0.2));
  work[0].rate[300] = std::nan("");
  EXPECT_TRUE(work_cycles(work, kEvent, 20).has_value()) << "in another cycle";
}

TEST(JobCycles, AreNoneWhereTwoCoursesContradictEachOther) {
  auto work = recorded(job(0.4));
  work.push_back(recorded(job(0)).front());
  EXPECT_FALSE(work_cycles(work, kEvent, 20).has_value());
  work.back() = recorded(job(0.4)).front();
  EXPECT_TRUE(work_cycles(work, kEvent, 20).has_value());
}

/// The impact of packets that were lost from 50 s to 65 s, in which as many segments arrived as usual.
Impact impact_of(const R& recording) {
  const Telemetry all = recording.with_derived();
  JobProgress progress;
  RuleContext::Node node{all, recording.detection, recording.begin, recording.end, recording.events};
  node.progress = &progress;
  const RuleContext context(*find_rule("net.tcp_retrans_fault"), node, {}, {});
  Finding finding = finding_at(context, kEvent);
  set_loss_of_segments(context, finding, InsideOutside{.inside = 100, .outside = 100}, kEvent);
  return finding.impact;
}

TEST(JobCycles, AreTheCostOfLostSegmentsOfWhichAsManyArrived) {
  R recording;
  recording.counter("process.read_by_calls", "rank0", job(0.2));
  const Impact impact = impact_of(recording);
  EXPECT_NEAR(impact.seconds.value_or(0), 3, 0.2);
  EXPECT_EQ(impact.how.find("4 cycles of the recording, from burst to burst of its read calls, took "), 0U)
      << impact.how;
}

TEST(JobCycles, ShowThatNothingWasLost) {
  R recording;
  recording.counter("process.read_by_calls", "rank0", job(0));
  EXPECT_FALSE(impact_of(recording).seconds.has_value());
  EXPECT_EQ(impact_of(recording).how, "none seen: the recording read and wrote as much as usual");
}

TEST(JobCycles, LeaveTheCostUnknownWhereTheyAreNotKnown) {
  EXPECT_FALSE(impact_of(R()).seconds.has_value());
  EXPECT_EQ(impact_of(R()).how, "not known: as many segments arrived as usual, but they may have been smaller");
}

}  // namespace
}  // namespace reveal::tests::job_cycles_test
