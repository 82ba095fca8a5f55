// The cycles of a job that reads its data in bursts, and what an interval cost it by them.
#include "postproc/diagnose/job_cycles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
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
    return speed * (std::fmod(own, 4) < 0.25 ? 50e6 : 5e6);
  };
}

/// A job with cycles of 3.5 s, 4 s and 4.5 s, each with the same work, nearly all of it in the first .3 s. Those that
/// begin from 48 s to 64 s are slowed.
R::Course uneven_job(double slowed) {
  std::vector<long long> begins = {0};  // tenths of a second
  while (begins.back() < 1300) {
    constexpr double kLengths[] = {35, 40, 45};
    const bool slow = begins.back() >= 480 && begins.back() < 640;
    begins.push_back(begins.back() + std::llround(kLengths[(begins.size() - 1) % 3] / (slow ? 1 - slowed : 1)));
  }
  return [begins](double second) {
    const long long at = std::llround(10 * second);
    const auto next = std::upper_bound(begins.begin(), begins.end(), at);
    const long long begin = *(next - 1);
    return at < begin + 3 ? 500e6 : 18.5e6 / static_cast<double>(*next - begin - 3);
  };
}

/// A job with cycles of 4 s that stands still in this time.
R::Course stopped_job(double begin, double end) {
  return [=](double second) {
    if (second >= begin && second < end) return 0.0;
    const double own = second - std::clamp(second - begin, 0.0, end - begin);
    return std::fmod(own, 4) < 0.25 ? 50e6 : 5e6;
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
            "4 cycles of the job, from burst to burst of its read calls (sockets included), took 19 s instead of 16 s");
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

TEST(JobCycles, NeedNoValuesInMostWindows) {
  auto work = recorded(job(0.2));
  std::vector<double>& rate = work[0].rate;
  std::fill(rate.begin() + 20, rate.begin() + 320, std::nan(""));
  std::fill(rate.begin() + 690, rate.end(), std::nan(""));
  EXPECT_TRUE(work_cycles(work, kEvent, 20).has_value());
}

TEST(JobCycles, TellNoDelayThatIsLongerThanTheInterval) {
  const auto work = recorded(stopped_job(55.5, 65));
  EXPECT_FALSE(work_cycles(work, {500, 550}, 20).has_value()) << "the same cycle has another event";
  const auto stopped = work_cycles(work, {555, 650}, 20);
  ASSERT_TRUE(stopped.has_value());
  EXPECT_NEAR(stopped->lost(), 95, 2);
}

TEST(JobCycles, DoNotKnowASlowDownByWhichTheyVaryAnyway) {
  const auto of = [](double slowed) {
    const auto cycles = work_cycles(recorded(uneven_job(slowed)), {500, 600}, 20);
    EXPECT_TRUE(cycles.has_value()) << slowed;
    if (!cycles) return std::string();
    return std::string(cycles->slower() ? "slower" : cycles->went_on() ? "went on" : "not known");
  };
  EXPECT_EQ(of(0), "went on");
  for (const double slowed : {-0.1, 0.06, 0.1}) EXPECT_EQ(of(slowed), "not known") << slowed;
  for (const double slowed : {0.17, 0.2}) EXPECT_EQ(of(slowed), "slower") << slowed;
}

TEST(JobCycles, AreNoneWhereTwoCoursesContradictEachOther) {
  auto work = recorded(job(0.4));
  work.push_back(recorded(job(0)).front());
  EXPECT_FALSE(work_cycles(work, kEvent, 20).has_value());
  work.back() = recorded(job(0.4)).front();
  EXPECT_TRUE(work_cycles(work, kEvent, 20).has_value());
}

/// A job of one course of reads.
R reading(const R::Course& course) {
  R recording;
  recording.counter("process.read_by_calls", "rank0", course);
  return recording;
}

Impact impact_of(const R& recording, Interval at, const std::function<void(const RuleContext&, Finding&)>& set) {
  const Telemetry all = recording.with_derived();
  JobProgress progress;
  RuleContext::Node node{all, recording.detection, recording.begin, recording.end, recording.events};
  node.progress = &progress;
  const RuleContext context(*find_rule("net.tcp_retrans_fault"), node, {}, {});
  Finding finding = finding_at(context, at);
  set(context, finding);
  return finding.impact;
}

/// The impact of packets that were lost, of 100 segments a second.
Impact impact_of(const R& recording, double arrived = 100, Interval at = kEvent) {
  return impact_of(recording, at, [&](const RuleContext& context, Finding& finding) {
    set_loss_of_segments(context, finding, InsideOutside{.inside = arrived, .outside = 100}, at);
  });
}

/// The same of something that a rule estimates itself.
Impact impact_of_estimate(const R& recording, double seconds, bool at_most) {
  return impact_of(recording, kEvent, [&](const RuleContext& context, Finding& finding) {
    if (at_most) return set_most_loss(context, finding, seconds, "it waited");
    set_loss(context, finding, seconds, "it waited");
  });
}

TEST(JobCycles, AreTheCostOfLostSegmentsOfWhichAsManyArrived) {
  const Impact impact = impact_of(reading(job(0.2)));
  EXPECT_NEAR(impact.seconds.value_or(0), 3, 0.2);
  EXPECT_EQ(
      impact.how.find("4 cycles of the recording, from burst to burst of its read calls (sockets included), took "), 0U)
      << impact.how;
}

TEST(JobCycles, ShowThatNothingWasLost) {
  const Impact impact = impact_of(reading(job(0)));
  EXPECT_FALSE(impact.seconds.has_value());
  EXPECT_EQ(
      impact.how,
      "none seen: 5 cycles of the recording, from burst to burst of its read calls (sockets included), took 20 s, "
      "otherwise 20 s");
}

TEST(JobCycles, LeaveTheFallOfSegmentsWhereTheyVaryByMore) {
  const Impact impact = impact_of(reading(uneven_job(0.1)), 90, {500, 600});
  EXPECT_NEAR(impact.seconds.value_or(0), 1, 1e-6);
  EXPECT_EQ(impact.how, "90 segments arrived per second instead of 100");
  EXPECT_NEAR(impact_of(reading(uneven_job(0.17)), 90, {500, 600}).seconds.value_or(0), 2.4, 0.2);
}

TEST(JobCycles, CostNoMoreThanTheInterval) {
  EXPECT_NEAR(impact_of(reading(stopped_job(50, 65)), 100, {505, 645}).seconds.value_or(0), 14, 0.05);
}

TEST(JobCycles, ReplaceAnEstimateThatIsNoUpperBoundOfThem) {
  const R slowed = reading(job(0.2));  // 3 s
  EXPECT_NEAR(impact_of_estimate(slowed, 1, false).seconds.value_or(0), 3, 0.2);
  EXPECT_NEAR(impact_of_estimate(slowed, 9, true).seconds.value_or(0), 3, 0.2);
  EXPECT_EQ(impact_of_estimate(slowed, 1, true).seconds, 1);
  const Impact went_on = impact_of_estimate(reading(job(0)), 2, false);
  EXPECT_EQ(went_on.seconds, 2);
  EXPECT_EQ(went_on.how, "it waited");
}

TEST(JobCycles, LeaveTheCostUnknownWhereTheyAreNotKnown) {
  EXPECT_FALSE(impact_of(R()).seconds.has_value());
  EXPECT_EQ(impact_of(R()).how, "not known: as many segments arrived as usual, but they may have been smaller");
}

}  // namespace
}  // namespace reveal::tests::job_cycles_test
