#include "postproc/diagnose/main_threads.h"

#include <gtest/gtest.h>

#include "hdf5schema/basics/clocks.h"

namespace reveal::tests::main_threads_test {
namespace {

constexpr std::int64_t kOffset = 1000 * kSecond;  // from the axis of the events to UTC

/// A sample a second for two minutes: `inside` from 50 s to 80 s, else `outside`.
PythonSamples process(const std::string& name, const std::string& inside, const std::string& outside) {
  PythonSamples samples{.process = name, .places = {inside, outside}, .samples = {}};
  for (std::int64_t second = 0; second < 120; ++second) {
    samples.samples.push_back({.time_ns = second * kSecond, .place = second >= 50 && second < 80 ? 0 : 1});
  }
  return samples;
}

Finding finding() {
  Finding finding;
  finding.id = "job.stopped";
  finding.intervals = {{kOffset + 50 * kSecond, kOffset + 80 * kSecond}};
  return finding;
}

std::vector<std::string> sentences(const std::vector<PythonSamples>& processes, const Finding& about = finding()) {
  std::vector<Finding> findings = {about};
  add_main_threads(processes, kOffset, findings);
  return findings.front().main_threads;
}

TEST(MainThreads, StoodSomewhereElseWhileTheFindingLasted) {
  auto rank = process("rank1", "load (data.py:88)", "step (train.py:40)");
  for (int i = 50; i < 53; ++i) rank.samples[static_cast<std::size_t>(i)].place = PythonSamples::kElsewhere;
  EXPECT_EQ(sentences({rank}),
            std::vector<std::string>{"the main thread of rank1 was in load (data.py:88) in 27 of 30 samples; at other "
                                     "times mostly in step (train.py:40)"});
}

TEST(MainThreads, OfRanksInOnePlaceAreOneSentence) {
  EXPECT_EQ(
      sentences({process("rank0", "barrier (train.py:9)", "step (train.py:40)"),
                 process("rank1", "barrier (train.py:9)", "step (train.py:40)"),
                 process("rank2", "load (data.py:88)", "step (train.py:40)")}),
      (std::vector<std::string>{"the main threads of rank[0-1] were in barrier (train.py:9) in 60 of 60 samples; at "
                                "other times mostly in step (train.py:40)",
                                "the main thread of rank2 was in load (data.py:88) in 30 of 30 samples; at other "
                                "times mostly in step (train.py:40)"}));
}

TEST(MainThreads, OfARuleThatSaidWhereTheyStoodAreLeftAsTheyAre) {
  Finding hang = finding();
  hang.main_threads = {"the main thread of rank1 on n2 was in load (data.py:88)"};
  EXPECT_EQ(sentences({process("rank1", "load (data.py:88)", "step (train.py:40)")}, hang), hang.main_threads);
}

TEST(MainThreads, ThatStoodAsEverAreNotMentioned) {
  PythonSamples same = process("rank0", "step (train.py:40)", "");
  for (PythonSamples::Sample& sample : same.samples) sample.place = 0;
  EXPECT_TRUE(sentences({same}).empty());
  Finding audit = finding();
  audit.kind = FindingKind::audit;
  EXPECT_TRUE(sentences({process("rank0", "load (data.py:88)", "step (train.py:40)")}, audit).empty());
  Finding brief = finding();
  brief.intervals.front().end_utc_ns = brief.intervals.front().begin_utc_ns + 7 * kSecond;
  EXPECT_TRUE(sentences({process("rank0", "load (data.py:88)", "step (train.py:40)")}, brief).empty());
  brief.intervals.front().end_utc_ns += kSecond;
  EXPECT_EQ(sentences({process("rank0", "load (data.py:88)", "step (train.py:40)")}, brief).size(), 1U);
}

TEST(MainThreads, ThatStoodSomewhereElseByChanceAreNotMentioned) {
  // Half of the samples in each of two places, always: of ten samples eight may well be in one.
  PythonSamples rank = process("rank0", "load (data.py:88)", "step (train.py:40)");
  for (std::size_t i = 0; i < rank.samples.size(); ++i) rank.samples[i].place = static_cast<std::int32_t>(i % 2);
  for (std::size_t i = 50; i < 60; ++i) rank.samples[i].place = i < 58 ? 0 : 1;
  Finding brief = finding();
  brief.intervals.front().end_utc_ns = brief.intervals.front().begin_utc_ns + 10 * kSecond;
  EXPECT_TRUE(sentences({rank}, brief).empty());
  for (std::size_t i = 50; i < 60; ++i) rank.samples[i].place = 0;
  EXPECT_EQ(sentences({rank}, brief).size(), 1U);
}

TEST(MainThreads, ThatCouldHardlyBeReadAreNotMentioned) {
  PythonSamples rank = process("rank0", "load (data.py:88)", "step (train.py:40)");
  for (std::int64_t second = 50; second < 64; ++second) rank.unread.push_back(second * kSecond);
  EXPECT_EQ(sentences({rank}).size(), 1U);
  for (std::int64_t second = 64; second < 68; ++second) rank.unread.push_back(second * kSecond);
  EXPECT_TRUE(sentences({rank}).empty());
}

TEST(MainThreads, ThatStoodNowhereMostlyAreNotMentioned) {
  PythonSamples rank = process("rank0", "load (data.py:88)", "step (train.py:40)");
  for (std::size_t i = 50; i < 80; i += 2) rank.samples[i].place = PythonSamples::kElsewhere;
  rank.samples[51].place = 1;
  EXPECT_TRUE(sentences({rank}).empty());
  EXPECT_TRUE(sentences({}).empty());
}

TEST(MainThreads, OfAJobThatHungFromTheBeginStoodInOnePlace) {
  Finding whole = finding();
  whole.intervals = {{kOffset, kOffset + 120 * kSecond}};
  PythonSamples hung = process("rank0", "init (train.py:9)", "main (train.py:2)");
  EXPECT_TRUE(sentences({hung}, whole).empty());
  for (std::size_t i = 5; i < hung.samples.size(); ++i) hung.samples[i].place = 0;
  EXPECT_EQ(sentences({hung}, whole),
            std::vector<std::string>{"the main thread of rank0 was in init (train.py:9) in 115 of 120 samples"});
}

TEST(MainThreads, ThatWereReadFasterHaveTheSameSharesAndMoreSamples) {
  Finding brief = finding();
  brief.intervals.front().end_utc_ns = brief.intervals.front().begin_utc_ns + 6 * kSecond;
  PythonSamples rank = process("rank1", "load (data.py:88)", "step (train.py:40)");
  for (std::size_t i = 56; i < 80; ++i) rank.samples[i].place = 1;
  EXPECT_TRUE(sentences({rank}, brief).empty()) << "six samples are too few";
  for (std::size_t i = 50; i < 56; ++i) rank.samples[i].weight = 0.1;
  for (std::int64_t tenth = 500; tenth < 560; ++tenth) {
    if (tenth % 10 == 0) continue;
    rank.samples.push_back({.time_ns = tenth * kSecond / 10, .place = tenth < 551 ? 0 : 1, .weight = 0.1});
  }
  EXPECT_EQ(sentences({rank}, brief),
            std::vector<std::string>{"the main thread of rank1 was in load (data.py:88) in 85 % of the time (60 "
                                     "samples); at other times mostly in step (train.py:40)"});
  const PythonThread thread = python_threads(std::vector{rank}, "n1").at(0);
  EXPECT_NEAR(thread.samples, 120, 1e-9);
  EXPECT_NEAR(thread.places.at(1).samples, 5.1, 1e-9);
}

TEST(MainThreads, HaveTheirMostFrequentPlacesInTheReport) {
  const std::vector<PythonSamples> processes = {process("rank0", "load (data.py:88)", "step (train.py:40)")};
  const std::vector<PythonThread> expected = {{.node = "n1",
                                               .process = "rank0",
                                               .samples = 120,
                                               .places = {{"step (train.py:40)", 90}, {"load (data.py:88)", 30}}}};
  EXPECT_EQ(python_threads(processes, "n1"), expected);
  PythonSamples unnamed{.process = "rank1", .places = {}, .samples = {{.time_ns = 1}}};
  EXPECT_TRUE(python_threads(std::vector{unnamed}, "n1").at(0).places.empty());
}

}  // namespace
}  // namespace reveal::tests::main_threads_test
