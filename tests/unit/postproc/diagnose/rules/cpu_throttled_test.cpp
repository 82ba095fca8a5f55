// cpu.cfs_throttled on a rank under a quota, and on one that only waits.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::cpu_throttled_test {
namespace {

using R = RuleRecording;
constexpr double kCpu = 1e9;  // nanoseconds of one cpu in a second

TEST(RuleThrottled, NamesTheRankThatAQuotaHeldBack) {
  R node;
  node.counter("process.throttled_time", "rank0", R::always(0), "rank")
      .counter("process.throttled_time", "rank1", R::event(0, 0.75 * kCpu), "rank")
      .counter("job.cpu_time", "", R::event(2 * kCpu, 1.25 * kCpu));
  const auto found = node.findings("cpu.cfs_throttled");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank1"});
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].confidence, Confidence::certain);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 50, 0.5);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 65, 0.5);
  EXPECT_NEAR(found[0].evidence.at(0).observed.value_or(0), 0.75, 0.05);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 15 * 0.75 / 2, 0.5);
}

TEST(RuleThrottled, ComparesARankWithItsOwnCpuTime) {
  R node;
  node.counter("process.throttled_time", "rank0", R::always(0), "rank")
      .counter("process.throttled_time", "rank1", R::event(0, 0.75 * kCpu), "rank")
      .counter("process.cpu_time", "rank1", R::event(kCpu, 0.25 * kCpu), "rank")
      .counter("job.cpu_time", "", R::event(64 * kCpu, 63.25 * kCpu));
  const auto found = node.findings("cpu.cfs_throttled");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 15 * 0.75, 0.5) << "the 63 others may wait for it";
}

TEST(RuleThrottled, ShowsAdministratorsHowToFindAQuotaBelowOneCpu) {
  const auto lines = [](const Snapshot& facts) {
    R node;
    node.counter("process.throttled_time", "rank0", R::event(0, 0.75 * kCpu), "rank")
        .counter("job.cpu_time", "", R::event(kCpu, 0.25 * kCpu));
    node.begin = facts;
    return node.findings("cpu.cfs_throttled").at(0).remedy;
  };
  const Remedy remedy = lines({});
  ASSERT_FALSE(remedy.admin.empty());
  EXPECT_TRUE(remedy.admin[0].starts_with("grep -rs --include=cpu.max ")) << remedy.admin[0];
  EXPECT_TRUE(remedy.advice.at(0).starts_with("Tell the administrators that a cpu quota ")) << remedy.advice[0];
}

TEST(RuleThrottled, FindsAQuotaThatWasThereFromTheStart) {
  R node;
  node.counter("cgroup.cpu_throttled_time", "", R::always(1.5 * kCpu)).counter("job.cpu_time", "", R::always(kCpu));
  const auto found = node.findings("cpu.cfs_throttled");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::critical);
  EXPECT_TRUE(found[0].instances.empty());
  EXPECT_FALSE(found[0].evidence.at(0).expected.has_value()) << "there was no time without it";
  EXPECT_EQ(found[0].sentence.find("usually"), std::string::npos) << found[0].sentence;
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 120, 0.2);
}

TEST(RuleThrottled, BlamesNoRankForAQuotaAroundTheWholeJob) {
  R node;
  node.counter("cgroup.cpu_throttled_time", "", R::event(0, 1.5 * kCpu))
      .counter("process.throttled_time", "rank0", R::event(0, 1.51 * kCpu), "rank")
      .counter("process.throttled_time", "rank1", R::event(0, 1.5 * kCpu), "rank")
      .counter("job.cpu_time", "", R::event(2 * kCpu, kCpu));
  const auto found = node.findings("cpu.cfs_throttled");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].instances.empty());
}

TEST(RuleThrottled, IsSilentOnAJobThatWaitsForItsOwnThreads) {
  R node;
  node.counter("process.throttled_time", "rank0", R::always(0), "rank")
      .counter("job.wait_time", "", R::event(0.1 * kCpu, 3 * kCpu))
      .counter("job.cpu_time", "", R::always(2 * kCpu));
  EXPECT_TRUE(node.findings("cpu.cfs_throttled").empty());
}

TEST(RuleThrottled, IsSilentOnAQuotaThatIsHardlyEverReached) {
  R node;
  node.counter("cgroup.cpu_throttled_time", "", R::event(0, 0.01 * kCpu)).counter("job.cpu_time", "", R::always(kCpu));
  EXPECT_TRUE(node.findings("cpu.cfs_throttled").empty());
}

TEST(RuleThrottled, SaysWhatItCouldNotMeasure) {
  EXPECT_THROW(static_cast<void>(R().findings("cpu.cfs_throttled")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::cpu_throttled_test
