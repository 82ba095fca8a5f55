#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::mem_swap_test {
namespace {

using R = RuleRecording;
constexpr double kPages = 1000;  // a second: 4.1 MB

std::vector<Finding> of(const R::Course& in) {
  R node;
  node.counter("vmstat.pswpin", "", in).counter("vmstat.pswpout", "", R::always(kPages));
  node.counter("pressure.memory_some", "", R::event(0, 0.4e9));
  return node.findings("mem.swap_activity");
}

TEST(RuleSwap, FindsTheIntervalInWhichPagesCameBack) {
  const auto found = of(R::event(0, kPages));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(static_cast<double>(found[0].intervals.at(0).begin_utc_ns) * 1e-9, 50, 1);
  EXPECT_NEAR(static_cast<double>(found[0].intervals.at(0).end_utc_ns) * 1e-9, 65, 1);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.4 * 15, 1);
  EXPECT_EQ(found[0].severity, Severity::warning);
}

TEST(RuleSwap, FindsAJobThatSwapsAllTheTime) {
  const auto found = of(R::always(kPages));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_GT(static_cast<double>(found[0].intervals.at(0).end_utc_ns - found[0].intervals.at(0).begin_utc_ns), 110e9);
}

TEST(RuleSwap, TakesTheNodesWaitingForAnUpperBoundOfTheJobs) {
  const auto found = of(R::event(0, kPages));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].impact.at_most);
  EXPECT_EQ(found[0].confidence, Confidence::possible) << "it was not seen whose waiting it was";
  const auto all_the_time = of(R::always(kPages));
  ASSERT_EQ(all_the_time.size(), 1U);
  EXPECT_NE(all_the_time[0].impact.how.find("some task of the node waited for memory"), std::string::npos)
      << all_the_time[0].impact.how;
}

R with_own_wait(double inside, double swap = 4e9) {
  R node;
  node.counter("vmstat.pswpin", "", R::event(0, kPages)).counter("pressure.memory_some", "", R::event(0, 0.4e9));
  node.counter("cgroup.memory_some", "", R::event(0, inside));
  node.gauge("group.memory", "job", R::always(8e9)).gauge("group.swap", "job", R::event(0, swap));
  node.begin = {{"env.SLURM_JOB_ID", "7"}};
  return node;
}

TEST(RuleSwap, AsksForTheMemoryThatTheJobHadInMemoryAndSwap) {
  const auto found = with_own_wait(0.2e9).findings("mem.swap_activity");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].confidence, Confidence::likely);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.2 * 15, 0.5);
  ASSERT_FALSE(found[0].remedy.user.empty());
  EXPECT_TRUE(found[0].remedy.user[0].starts_with("#SBATCH --mem=14G ")) << found[0].remedy.user[0];
  EXPECT_EQ(found[0].remedy.advice.at(0),
            "Ask for more than 11444M of memory: the job had so much in memory and in swap at one time.");
  EXPECT_NE(found[0].sentence.find("; up to 3.73 GiB of the job's memory were in swap at one time."), std::string::npos)
      << found[0].sentence;
}

TEST(RuleSwap, AsksForNoMoreThanTheNodeHas) {
  R node = with_own_wait(0.2e9);
  node.begin.emplace_back("memory.total", "13000000000");
  const Remedy tight = node.findings("mem.swap_activity").at(0).remedy;
  for (const std::string& line : tight.user) EXPECT_EQ(line.find("--mem"), std::string::npos) << line;
  EXPECT_TRUE(tight.advice.at(0).starts_with("Ask for more than 11444M of memory")) << tight.advice.at(0);
  node.begin.back().second = "11000000000";
  EXPECT_EQ(node.findings("mem.swap_activity").at(0).remedy.advice.at(0),
            "The job needs more memory than n2 has: use more nodes, or nodes with more memory.");
}

TEST(RuleSwap, SaysWhatWasSeenWhereTheSwapOfTheJobIsNotCounted) {
  R node;
  node.counter("vmstat.pswpin", "", R::event(0, kPages)).counter("pressure.memory_some", "", R::event(0, 0.4e9));
  node.gauge("group.memory", "job", R::event(212e6, 121e6));
  node.gauge("mem.swap_total", "", R::always(1e9), "node").gauge("mem.swap_free", "", R::event(1e9, 0.9e9), "node");
  const auto found = node.findings("mem.swap_activity");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("; up to 95.4 MiB of the node's memory were in swap at one time."),
            std::string::npos)
      << found[0].sentence;
  EXPECT_EQ(found[0].remedy.advice.at(0),
            "Ask for more than 202M of memory: the job had so much in memory at one time. Its part in swap was not "
            "measured.");
  node.begin = {{"env.SLURM_JOB_ID", "7"}};
  const std::vector<std::string> lines = node.findings("mem.swap_activity").at(0).remedy.user;
  ASSERT_FALSE(lines.empty());
  EXPECT_TRUE(lines[0].starts_with("#SBATCH --mem=1G   # at least: ")) << lines[0];
  EXPECT_EQ(of(R::event(0, kPages)).at(0).remedy.advice.at(0),
            "Ask for as much memory as the job uses: that was not measured.");
}

TEST(RuleSwap, NamesTheLimitThatTheJobReached) {
  R node = with_own_wait(0.2e9);
  node.gauge("group.memory_limit", "job", R::always(8.2e9));
  const auto found = node.findings("mem.swap_activity");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].sentence.ends_with("; the job's memory limit of 7.64 GiB was reached.")) << found[0].sentence;
}

TEST(RuleSwap, DoesNotChargeTheJobWithTheSwappingOfOthers) {
  const auto own = with_own_wait(0).findings("mem.swap_activity");
  ASSERT_EQ(own.size(), 1U);
  EXPECT_EQ(own[0].sentence.find("nothing in swap"), std::string::npos) << own[0].sentence;
  const auto found = with_own_wait(0, 0).findings("mem.swap_activity");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_FALSE(found[0].impact.seconds.has_value());
  EXPECT_NE(found[0].sentence.find("the job had nothing in swap, and hardly waited for memory"), std::string::npos)
      << found[0].sentence;
  for (const std::string& line : found[0].remedy.user) EXPECT_EQ(line.find("--mem"), std::string::npos) << line;
  EXPECT_EQ(found[0].remedy.advice.at(0), "Ask for as much memory as the job uses.");
}

TEST(RuleSwap, ChargesNoJobThatHadNothingInSwapWhereItsWaitingIsNotCounted) {
  R node;
  node.counter("vmstat.pswpin", "", R::event(0, kPages)).counter("pressure.memory_some", "", R::event(0, 0.4e9));
  node.gauge("group.memory", "job", R::always(8e9)).gauge("group.swap", "job", R::always(0));
  node.begin = {{"env.SLURM_JOB_ID", "7"}};
  const auto found = node.findings("mem.swap_activity");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_FALSE(found[0].impact.seconds.has_value());
  EXPECT_TRUE(found[0].sentence.ends_with("; the job had nothing in swap.")) << found[0].sentence;
  for (const std::string& line : found[0].remedy.user) EXPECT_EQ(line.find("--mem"), std::string::npos) << line;
}

TEST(RuleSwap, TakesPagesThatOnlyLeaveForUnused) {
  EXPECT_TRUE(of(R::always(0)).empty());
}

TEST(RuleSwap, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("mem.swap_activity")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::mem_swap_test
