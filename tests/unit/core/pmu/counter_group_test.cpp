// Scaling, the least share of the time, and when the counters are left to others: without any counter.
#include "core/pmu/counter_group.h"

#include <gtest/gtest.h>

#include "core/pmu/profiler_watch.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/vocabulary.h"
#include "test_host.h"

namespace reveal::tests::counter_group_test {
namespace {

void tick(ScaledSums& sums, std::initializer_list<GroupReading> groups) {
  sums.begin(groups.size());
  std::size_t place = 0;
  for (const GroupReading& group : groups) sums.add(place++, group);
  sums.end();
}

TEST(ScaledSums, AddUpGroupsAndScaleWhatDidNotRunAllTheTime) {
  ScaledSums sums(2);
  tick(sums, {{100, 100, {10, 1000}}, {100, 50, {10, 1000}}});
  EXPECT_EQ(sums.total(0), 1 + 10 + 20);
  EXPECT_EQ(sums.total(1), 1 + 1000 + 2000);
  EXPECT_DOUBLE_EQ(sums.counted_share(), 0.5);
  tick(sums, {{200, 200, {15, 1000}}, {200, 150, {11, 1000}}});
  EXPECT_EQ(sums.total(0), 31 + 5 + 1);
  EXPECT_EQ(sums.total(1), 3001);
  EXPECT_DOUBLE_EQ(sums.counted_share(), 1);
}

TEST(ScaledSums, AreMissingBelowThirtyPerCentAndMadeUpForByALongerLook) {
  ScaledSums sums(1);
  tick(sums, {{100, 100, {10}}});
  EXPECT_EQ(sums.total(0), 11);
  tick(sums, {{200, 129, {20}}});
  EXPECT_EQ(sums.total(0), kMissing);
  EXPECT_DOUBLE_EQ(sums.counted_share(), 0.29);
  tick(sums, {{300, 229, {149}}});  // both ticks together: 129 of 200, 139 counted
  EXPECT_EQ(sums.total(0), 11 + 216);
}

TEST(ScaledSums, TakeThirtyPerCentAsEnough) {
  ScaledSums sums(1);
  tick(sums, {{100, 30, {3}}});
  EXPECT_EQ(sums.total(0), 1 + 10);
}

TEST(ScaledSums, AreMissingWhenOneGroupOfSeveralIs) {
  ScaledSums sums(1);
  tick(sums, {{100, 100, {10}}, {100, 0, {0}}});
  EXPECT_EQ(sums.total(0), kMissing);
  EXPECT_DOUBLE_EQ(sums.counted_share(), 0);
}

TEST(ScaledSums, StepBackOnceAfterALongGap) {
  ScaledSums sums(1);
  tick(sums, {{100, 100, {10}}});
  for (std::uint64_t t = 2; t < 40; ++t) {
    tick(sums, {{t * 100, 100, {10}}});
    EXPECT_EQ(sums.total(0), kMissing);
  }
  tick(sums, {{4000, 200, {500}}});
  EXPECT_EQ(sums.total(0), 10);  // less than before: the trace stores no increment
  tick(sums, {{4100, 300, {507}}});
  EXPECT_EQ(sums.total(0), 17);
}

TEST(ScaledSums, CountNothingOfAJobThatHadNoCpu) {
  ScaledSums sums(1);
  tick(sums, {{100, 100, {10}}});
  tick(sums, {{100, 100, {10}}});
  EXPECT_EQ(sums.total(0), 11);
  EXPECT_DOUBLE_EQ(sums.counted_share(), -1);
}

TEST(ScaledSums, AreMissingWhereACpuIsNoLongerCounted) {
  ScaledSums sums(1, ScaledSums::Enabled::always);
  tick(sums, {{100, 100, {10}}, {100, 100, {20}}});
  EXPECT_EQ(sums.total(0), 31);
  tick(sums, {{200, 200, {15}}, {100, 100, {20}}});
  EXPECT_EQ(sums.total(0), kMissing);
  EXPECT_DOUBLE_EQ(sums.counted_share(), 0);
}

TEST(ScaledSums, KeepWhatAGroupCountedThatIsTakenOut) {
  ScaledSums sums(1);
  tick(sums, {{100, 100, {10}}, {100, 100, {20}}});
  EXPECT_EQ(sums.total(0), 31);
  sums.forget(0);
  tick(sums, {{200, 200, {25}}});
  EXPECT_EQ(sums.total(0), 36);
  tick(sums, {{300, 300, {25}}, {10, 10, {7}}});  // a new one has counted from zero
  EXPECT_EQ(sums.total(0), 43);
}

TEST(Profiler, IsKnownByItsName) {
  for (const std::string_view name :
       {"perf", "perf_6.1", "perf-5.10", "likwid-perfctr", "nsys", "vtune", "hpcrun", "papi_avail", "AMDuProfCLI"}) {
    EXPECT_TRUE(is_profiler(name)) << name;
  }
  for (const std::string_view name :
       {"", "perform", "perf-test", "perf_", "perf_x", "python3", "nsysx", "PERF", "per"}) {
    EXPECT_FALSE(is_profiler(name)) << name;
  }
}

class StepBack : public ::testing::Test {
 protected:
  StepBack() {
    host_.process(100, 1, "launcher", 1, 1);
    host_.last_pid(100);
  }
  TestHost host_;
};

TEST_F(StepBack, WhileTheJobsOwnProfilerRuns) {
  KernelTree fs(host_.root());
  fs.limit_kept_files(0);
  const Host host = Host::look(fs);
  Job job(fs, host, JobSource{.pid = 100}, 1);
  ProfilerWatch watch;
  job.update({kSecond, kSecond});
  EXPECT_FALSE(watch.step_back(kSecond, &job, 1));
  EXPECT_EQ(watch.reason(), "");
  host_.process(101, 100, "perf", 1, 1);
  host_.last_pid(101);
  job.update({2 * kSecond, 2 * kSecond});
  EXPECT_TRUE(watch.step_back(2 * kSecond, &job, 1));
  EXPECT_EQ(watch.reason(), "the job's own profiler perf had the processor's counters");
  host_.remove("/proc/101");
  job.update({3 * kSecond, 3 * kSecond});
  EXPECT_TRUE(watch.step_back(3 * kSecond, &job, -1));  // it may begin its next run
  EXPECT_TRUE(watch.step_back(6 * kSecond, &job, -1));
  EXPECT_FALSE(watch.step_back(8 * kSecond, &job, -1));
  EXPECT_NE(watch.reason(), "");  // in the report permanently
}

TEST_F(StepBack, WhenSomebodyElseTakesTheCounters) {
  ProfilerWatch watch;
  std::int64_t now = kSecond;
  for (int i = 1; i < ProfilerWatch::kStarvedTicks; ++i, now += kSecond / 10) {
    EXPECT_FALSE(watch.step_back(now, nullptr, 0.2));
  }
  EXPECT_FALSE(watch.step_back(now, nullptr, 0.5));  // one good tick: they come back
  for (int i = 1; i < ProfilerWatch::kStarvedTicks; ++i) EXPECT_FALSE(watch.step_back(now, nullptr, 0));
  EXPECT_TRUE(watch.step_back(now, nullptr, 0));
  EXPECT_NE(watch.reason().find("30 %"), std::string::npos);
  EXPECT_TRUE(watch.step_back(now + ProfilerWatch::kPauseNs - 1, nullptr, -1));
  EXPECT_FALSE(watch.step_back(now + ProfilerWatch::kPauseNs, nullptr, -1));
}

TEST_F(StepBack, NotForAJobThatHadNoCpu) {
  ProfilerWatch watch;
  for (int i = 0; i < 3 * ProfilerWatch::kStarvedTicks; ++i) EXPECT_FALSE(watch.step_back(kSecond, nullptr, -1));
}

}  // namespace
}  // namespace reveal::tests::counter_group_test
