#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::mem_oom_killed_test {
namespace {

using R = RuleRecording;
constexpr double kGiB = 1073741824;

R::Course once_at(double when, double count) {
  return [=](double second) { return second >= when && second < when + 0.05 ? count : 0; };
}

TEST(RuleOomKilled, NamesTheTightestOfTheGroupsThatCounted) {
  R node;
  node.gauge("group.killed_for_memory", "job_7", once_at(60, 2));
  node.gauge("group.killed_for_memory", "job_7/step_0", once_at(60, 2));
  node.gauge("group.killed_for_memory", "job_7/step_1", R::always(0));
  node.gauge("group.memory_limit", "job_7", R::always(8 * kGiB));
  node.gauge("group.memory_limit", "job_7/step_0", R::always(4 * kGiB));
  node.gauge("group.memory", "job_7/step_0", R::always(3.9 * kGiB));
  node.begin = {{"env.SLURM_JOB_ID", "7"}};
  const auto found = node.findings("mem.oom_killed");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"job_7/step_0"});
  EXPECT_EQ(found[0].severity, Severity::critical);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 60, 0.11);
  EXPECT_NE(found[0].sentence.find("2 processes"), std::string::npos) << found[0].sentence;
  EXPECT_NE(found[0].sentence.find("its limit of 4 GiB was reached"), std::string::npos) << found[0].sentence;
  EXPECT_TRUE(found[0].remedy.user.empty()) << "--mem of the job does not raise the limit of a step";
  EXPECT_TRUE(found[0].remedy.advice.at(0).starts_with("The limit of 4G is that of job_7/step_0, not of the whole job"))
      << found[0].remedy.advice.at(0);
}

TEST(RuleOomKilled, NamesTheOnlyProcessThatEndedThen) {
  R node;
  node.gauge("group.killed_for_memory", "job", once_at(60, 1));
  node.gauge("group.memory_limit", "job", R::always(1.5 * kGiB));
  node.gauge("group.memory", "job", R::always(0.5 * kGiB));
  node.begin = {{"env.SLURM_JOB_ID", "7"}};
  node.events = {{0, "process 11", "process_begin", "rank0 python3"},
                 {0, "process 12", "process_begin", "rank1 solver"},
                 {20'000'000'000, "process 12", "process_end", "rank1"},
                 {60'500'000'000, "process 11", "process_end", "rank0"}};
  const auto found = node.findings("mem.oom_killed");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].sentence.ends_with(" At that time, python3 ended, probably the killed process."))
      << found[0].sentence;
  EXPECT_NE(found[0].sentence.find("(job) has a limit of 1.5 GiB, of which 512 MiB was seen in use"),
            std::string::npos);
  EXPECT_NE(found[0].remedy.user.at(0).find("the limit of 1536M;"), std::string::npos) << found[0].remedy.user[0];
  EXPECT_TRUE(found[0].remedy.admin.empty()) << "the limit held";
  node.events.push_back({60'500'000'000, "process 13", "process_end", "slot3"});
  EXPECT_EQ(node.findings("mem.oom_killed").at(0).sentence.find(" ended"), std::string::npos) << "one of two";
}

TEST(RuleOomKilled, SaysHowMuchTheKilledProcessHadAndAFigureToAskFor) {
  R node;
  node.gauge("group.killed_for_memory", "job", once_at(60, 1));
  node.gauge("group.memory_limit", "job", R::always(304.0 * 1048576));
  node.gauge("group.memory_peak", "job", R::always(304.0 * 1048576));
  const auto grows = [](double second) { return second < 60.05 ? 100e6 + 3'698'848 * second : 720896; };
  node.gauge("process.rss", "rank0", grows);
  node.events = {{0, "process 11", "process_begin", "rank0 python3"},
                 {60'500'000'000, "process 11", "process_end", "rank0"}};
  const auto found = node.findings("mem.oom_killed");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(
      found[0].sentence.ends_with(" At that time, python3 ended, probably the killed process; it was last seen with "
                                  "307 MiB resident, with shared libraries."))
      << found[0].sentence;
  ASSERT_FALSE(found[0].remedy.advice.empty());
  EXPECT_EQ(found[0].remedy.advice[0],
            "Raise the memory limit where it was set for the job, for example to 384M: at least a quarter more than "
            "304M. The need was not measured.");
}

TEST(RuleOomKilled, IsSilentWhereNobodyWasKilled) {
  R node;
  node.gauge("group.killed_for_memory", "job_7", R::always(0)).gauge("vmstat.oom_kill", "", R::always(0));
  EXPECT_TRUE(node.findings("mem.oom_killed").empty());
}

TEST(RuleOomKilled, OnlySuspectsAKillThatTheNodeAloneCounted) {
  R node;
  node.gauge("vmstat.oom_kill", "", once_at(30, 1));
  const auto found = node.findings("mem.oom_killed");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  EXPECT_EQ(found[0].severity, Severity::notice) << "it may have been anybody's";
  node.gauge("group.killed_for_memory", "job_7", R::always(0));
  EXPECT_TRUE(node.findings("mem.oom_killed").empty()) << "the job's own group knows better";
  EXPECT_NE(found[0].sentence.find("1 process for memory"), std::string::npos) << found[0].sentence;
  R ended;
  ended.gauge("vmstat.oom_kill", "", once_at(30, 1));
  ended.events = {{30'500'000'000, "process 11", "process_end", "rank0"}};
  EXPECT_TRUE(ended.findings("mem.oom_killed").at(0).sentence.ends_with(" ended.")) << "it may be no killed one";
}

TEST(RuleOomKilled, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("mem.oom_killed")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::mem_oom_killed_test
