// job.stopped on a process that signals hold, and on one that sleeps.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::job_stopped_test {
namespace {

using R = RuleRecording;

TEST(RuleStopped, SeesAProcessThatStandsStillSeveralTimesASecond) {
  R node;
  node.gauge("job.stopped", "",
             [](double second) { return second >= 50 && second < 62 && std::fmod(second, 0.4) < 0.1 ? 1.0 : 0.0; })
      .counter("job.cpu_time", "", R::event(1e9, 0.6e9));
  const auto found = node.findings("job.stopped");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].confidence, Confidence::certain);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 50, 1);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 62, 1);
  EXPECT_NEAR(found[0].evidence.at(0).observed.value_or(0), 0.25, 0.05);
}

TEST(RuleStopped, IsUrgentToNobodyAndBlamesNoScheduler) {
  R node;
  node.gauge("job.stopped", "", [](double second) { return second >= 40 && second < 90 ? 1.0 : 0.0; })
      .counter("job.cpu_time", "", [](double second) { return second >= 40 && second < 90 ? 0 : 1e9; });
  for (const bool slurm : {false, true}) {
    if (slurm) node.begin = {{"env.SLURM_JOB_ID", "4711"}};
    const auto found = node.findings("job.stopped");
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].severity, Severity::warning) << *found[0].impact.percent;
    EXPECT_GT(found[0].impact.percent.value_or(0), 25);
    EXPECT_TRUE(found[0].remedy.admin.empty());
    bool asks_slurm = false;
    for (const std::string& line : found[0].remedy.user) asks_slurm |= line.starts_with("sacct -X -j 4711 ");
    EXPECT_EQ(asks_slurm, slurm);
    EXPECT_EQ(found[0].sentence.find("1 processes"), std::string::npos);
  }
}

TEST(RuleStopped, LastsAsLongAsTheJobShowsIt) {
  R node;
  node.gauge("job.stopped", "", [](double second) { return second >= 55 && second < 60 ? 1.0 : 0.0; });
  node.detection.episodes.push_back({.begin = 500, .end = 620, .tier = Tier::strong});
  const auto found = node.findings("job.stopped");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 50, 0.01);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 62, 0.01);
}

TEST(RuleStopped, SaysWhyTheCostIsLongerThanTheStops) {
  const auto how = [](double written) {
    R node;
    node.gauge("job.stopped", "",
               [](double second) { return second >= 50 && second < 62 && std::fmod(second, 0.4) < 0.1 ? 1.0 : 0.0; })
        .counter("job.cpu_time", "", R::event(1e9, 0.6e9))
        .counter("process.written_by_calls", "rank0",
                 [written](double second) { return second >= 50 && second < 62 ? written : 1e6; });
    return node.findings("job.stopped").at(0).impact.how;
  };
  EXPECT_NE(how(0.2e6).find("; this is longer than the stops that were seen"), std::string::npos) << how(0.2e6);
  EXPECT_EQ(how(0.9e6).find("longer than the stops"), std::string::npos) << how(0.9e6);
}

TEST(RuleStopped, OnlyNotesAProcessNobodyWaitsFor) {
  R node;
  node.gauge("job.stopped", "", R::event(0, 1)).counter("job.cpu_time", "", R::always(1e9));
  const auto found = node.findings("job.stopped");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_FALSE(found[0].impact.seconds.has_value());
  EXPECT_EQ(found[0].impact.how, "none seen: the job used its cpus as before");
}

TEST(RuleStopped, AddsUpNoTimesOfManyProcesses) {
  R node;
  node.gauge("job.stopped", "", R::event(0, 128)).counter("job.cpu_time", "", R::event(128e9, 0));
  const auto found = node.findings("job.stopped");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find(" processes of the job on n2 on average, for 1"), std::string::npos)
      << found[0].sentence;
  EXPECT_EQ(found[0].sentence.find("in total"), std::string::npos) << found[0].sentence;
}

TEST(RuleStopped, IsSilentOnAJobThatSleeps) {
  R node;
  node.gauge("job.stopped", "", R::always(0)).counter("job.cpu_time", "", R::event(1e9, 0));
  EXPECT_TRUE(node.findings("job.stopped").empty());
}

TEST(RuleStopped, IsSilentOnOneSampleWhileADebuggerAttached) {
  R node;
  node.gauge("job.stopped", "", [](double second) { return second >= 60 && second < 60.15 ? 1.0 : 0.0; });
  EXPECT_TRUE(node.findings("job.stopped").empty());
}

TEST(RuleStopped, SaysThatAnOlderTraceDoesNotTell) {
  EXPECT_THROW(static_cast<void>(R().findings("job.stopped")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::job_stopped_test
