// mem.leak_oom_risk on a rank whose memory grows and stays, and on what only looks so: start, steps, buffers, cache.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal {
namespace {

using R = RuleRecording;
constexpr double kMB = 1e6;

R::Course ramp(double usual, double begin, double end, double per_second) {
  return [=](double second) { return usual + per_second * std::clamp(second - begin, 0.0, end - begin); };
}

std::vector<Finding> of(const R::Course& resident, double seconds = 120, double available = 64e9) {
  R node(seconds);
  node.gauge("process.rss", "rank0", R::always(300 * kMB), "rank").gauge("process.rss", "rank1", resident, "rank");
  node.gauge("mem.available", "", R::always(available));
  return node.findings("mem.leak_oom_risk");
}

TEST(RuleLeak, NamesTheRankAndTheStretch) {
  const auto found = of(ramp(300 * kMB, 50, 62, 80 * kMB));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"rank1"});
  EXPECT_NEAR(static_cast<double>(found[0].intervals.at(0).begin_utc_ns) * 1e-9, 50, 1.1);
  EXPECT_NEAR(static_cast<double>(found[0].intervals.at(0).end_utc_ns) * 1e-9, 62, 1.1);
  EXPECT_EQ(found[0].evidence.at(0).unit, "bytes");
  EXPECT_NEAR(found[0].evidence.at(0).observed.value_or(0), 1260 * kMB, 90 * kMB);
  EXPECT_NEAR(found[0].evidence.at(1).observed.value_or(0), 80 * kMB, 10 * kMB);
}

TEST(RuleLeak, WarnsOfTheEndOfTheMemory) {
  const auto found = of(ramp(300 * kMB, 20, 1e9, 10 * kMB), 120, 5e9);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].confidence, Confidence::likely);
  EXPECT_NE(found[0].sentence.find("lasts"), std::string::npos) << found[0].sentence;
}

TEST(RuleLeak, OnlyNotesGrowthThatEnded) {
  const auto found = of(ramp(300 * kMB, 50, 62, 80 * kMB));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
}

TEST(RuleLeak, IsSilentOnTheStartOfAProgram) {
  EXPECT_TRUE(of(ramp(50 * kMB, 0, 9, 150 * kMB)).empty());
}

TEST(RuleLeak, IsSilentOnOneLargeAllocation) {
  EXPECT_TRUE(of([](double second) { return second < 60 ? 300 * kMB : 2000 * kMB; }).empty());
}

TEST(RuleLeak, IsSilentOnBuffersThatAreGivenBack) {
  EXPECT_TRUE(of([](double second) { return 300 * kMB + 60 * kMB * std::fmod(second, 20); }).empty());
}

TEST(RuleLeak, IsSilentOnPageCache) {
  R node;
  node.gauge("process.rss", "rank0", R::always(300 * kMB), "rank");
  node.gauge("cgroup.memory_file", "", ramp(300 * kMB, 20, 110, 80 * kMB));
  node.gauge("mem.cached", "", ramp(300 * kMB, 20, 110, 80 * kMB));
  EXPECT_TRUE(node.findings("mem.leak_oom_risk").empty());
}

TEST(RuleLeak, SurvivesAShortJobAndMissingSamples) {
  EXPECT_TRUE(of(ramp(300 * kMB, 0, 3, 80 * kMB), 3).empty());
  EXPECT_TRUE(of([](double) { return std::nan(""); }).empty());
  EXPECT_THROW(static_cast<void>(R().findings("mem.leak_oom_risk")), Unavailable);
}

}  // namespace
}  // namespace reveal
