// mem.leak_oom_risk on a rank with memory that grows and stays, and on cases that only look so: start, steps, buffers,
// cache.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::mem_leak_test {
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

TEST(RuleLeak, AdvisesWhatFitsTheProgram) {
  R node;
  node.gauge("process.rss", "rank0", ramp(300 * kMB, 50, 62, 80 * kMB), "rank");
  const auto texts = [&](std::vector<Event> events, const char* libraries) {
    node.begin = {{"job.libraries", libraries}};
    node.events = std::move(events);
    const Finding found = node.findings("mem.leak_oom_risk").at(0);
    std::string all = found.sentence + "\n";
    for (const std::string& line : found.remedy.user) all += line + "\n";
    for (const std::string& line : found.remedy.advice) all += line + "\n";
    return all;
  };
  const std::string unknown = texts({}, "none");
  EXPECT_NE(unknown.find("Memory of the job's process on n2 grew by"), std::string::npos) << unknown;
  for (const char* word : {"rank0", "python", "train.py", "loss", "<", "{"}) {
    EXPECT_EQ(unknown.find(word), std::string::npos) << word << " in " << unknown;
  }
  const std::string python = texts({{0, "process 7", "process_begin", "rank0 python3"}}, "torch");
  EXPECT_NE(python.find("Memory of python3 on n2"), std::string::npos) << python;
  EXPECT_NE(python.find("\nexport PYTHONTRACEMALLOC=10 "), std::string::npos) << python;
  EXPECT_EQ(python.find("loss.item()"), std::string::npos) << python;
  EXPECT_NE(python.find("grow with each request or batch"), std::string::npos) << python;
  node.gauge(
      "stack.step_time", "rank0", [](double) { return 2e8; }, "rank");
  const std::string training = texts({{0, "process 7", "process_begin", "rank0 python3"}}, "torch");
  EXPECT_NE(training.find("loss.item()"), std::string::npos) << training;
  EXPECT_EQ(texts({{0, "process 7", "process_begin", "rank0 solver"}}, "none").find("python"), std::string::npos);
}

TEST(RuleLeak, WarnsOfTheEndOfTheMemory) {
  const auto found = of(ramp(300 * kMB, 20, 1e9, 10 * kMB), 120, 5e9);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].confidence, Confidence::likely);
  EXPECT_NE(found[0].sentence.find("; at that rate the node's memory would have lasted another 8 min 20 s."),
            std::string::npos)
      << found[0].sentence;
}

TEST(RuleLeak, CountsAllRanksThatTakeTheSameMemory) {
  R node;
  for (const char* rank : {"rank0", "rank1"}) {
    node.gauge("process.rss_anon", rank, ramp(300 * kMB, 20, 1e9, 10 * kMB), "rank");
    node.gauge("process.rss", rank, ramp(300 * kMB, 20, 1e9, 10 * kMB), "rank");
  }
  node.gauge("mem.available", "", R::always(5e9));
  const auto expect = [&](const char* words) {
    const auto found = node.findings("mem.leak_oom_risk");
    ASSERT_EQ(found.size(), 2U);
    EXPECT_NE(found[0].sentence.find(words), std::string::npos) << found[0].sentence;
  };
  expect("; the job grew at 19.1 MiB/s in all; at that rate the node's memory would have lasted another 4 min 10 s.");
  // 32 ranks, of which two are measured here.
  node.gauge("cgroup.memory_anon", "", ramp(9600 * kMB, 20, 1e9, 320 * kMB));
  expect("; the job grew at 305 MiB/s in all; at that rate the node's memory would have lasted another 15.6 s.");
}

/// A leak of 20 MB/s to the end of the run, on a node with 500 GB free; the job may have 8 GB, and had 6 GB at the end.
R limited(double cache) {
  R node;
  node.gauge("process.rss", "rank0", ramp(300 * kMB, 20, 1e9, 20 * kMB), "rank");
  node.gauge("mem.available", "", R::always(500e9));
  node.gauge("group.memory_limit", "job", R::always(8e9)).gauge("group.memory", "job", R::always(6e9 + cache));
  node.gauge("group.memory_limit", "step_0", R::always(8e9)).gauge("group.memory", "step_0", R::always(5e9 + cache));
  node.gauge("cgroup.memory_file", "", R::always(cache + 1e9)).gauge("memory_stat.shmem", "", R::always(1e9));
  return node;
}

TEST(RuleLeak, WarnsOfTheLimitOfTheTightestControlGroup) {
  const auto found = limited(0).findings("mem.leak_oom_risk");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_NE(found[0].sentence.find("; at that rate the limit of 7.45 GiB of the job's control group would have been "
                                   "reached after another 100 s."),
            std::string::npos)
      << found[0].sentence;
  EXPECT_EQ(found[0].evidence.back().instance, "job");
}

TEST(RuleLeak, TakesPageCacheBelowTheLimitForRoom) {
  const auto found = limited(1.9e9).findings("mem.leak_oom_risk");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("after another 100 s."), std::string::npos) << found[0].sentence;
}

TEST(RuleLeak, IsSilentOnMappedFiles) {
  const auto resident = [](R& node) -> R& {
    return node.gauge("process.rss", "rank0", ramp(300 * kMB, 20, 110, 80 * kMB), "rank");
  };
  R split;
  resident(split).gauge("process.rss_anon", "rank0", R::always(200 * kMB), "rank");
  EXPECT_TRUE(split.findings("mem.leak_oom_risk").empty()) << "the kernel can drop all of it";
  R by_group;
  resident(by_group).gauge("cgroup.memory_anon", "", R::always(200 * kMB));
  EXPECT_TRUE(by_group.findings("mem.leak_oom_risk").empty()) << "in a trace without the split";
  R leaks;
  resident(leaks).gauge("process.rss_anon", "rank0", ramp(200 * kMB, 20, 110, 80 * kMB), "rank");
  const auto found = leaks.findings("mem.leak_oom_risk");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].evidence.at(0).metric, "process.rss_anon");
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
}  // namespace reveal::tests::mem_leak_test
