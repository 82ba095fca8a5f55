#include "postproc/history/history.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "postproc/history/history_words.h"
#include "postproc/history/run_index.h"
#include "postproc/telemetry/publish.h"
#include "rules_tried.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::history_test {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kHour = 3'600'000'000'000;
constexpr std::int64_t kBegin = 1'763'634'725'000'000'000;

/// Run `number` of a job with 60 channels, each a few percent off its usual level.
RunRecord run(int number, double seconds = 600) {
  std::mt19937 random(static_cast<unsigned>(number) + 1);
  std::normal_distribution<double> normal(0, 1);
  RunRecord record;
  record.run_id = "run" + std::to_string(number);
  record.key = "key";
  record.name = "train";
  record.nodes = 4;
  record.begin_utc_ns = kBegin + number * kHour;
  record.seconds = seconds * (1 + 0.01 * normal(random));
  record.verdict = "healthy";
  record.accepted = true;
  for (int c = 10; c < 70; ++c) {
    record.channels.push_back({"metric_" + std::to_string(c), "count/s", Subsystem::cpu, Kind::counter,
                               100.0 * c * (1 + 0.03 * normal(random))});
  }
  record.facts = {{"cpu.governor", "performance"}, {"kernel.release", "6.1.0"}};
  return record;
}

std::vector<RunRecord> runs(int count) {
  std::vector<RunRecord> all;
  for (int i = 0; i < count; ++i) all.push_back(run(i));
  return all;
}

std::vector<Finding> findings(const HistoryComparison& history) {
  return tried(kHistoryRules, history_findings(history, {"n01"}, {1, 2}));
}

TEST(History, NeverComparedIsNotNoChange) {
  const HistoryComparison first = compare_runs(run(0), {});
  EXPECT_EQ(first.status, HistoryStatus::never_compared);
  EXPECT_EQ(first.reason, "no earlier run of this command and shape is known");
  EXPECT_EQ(first.sentence, "");
  const HistoryComparison second = compare_runs(run(1), runs(1));
  EXPECT_EQ(second.status, HistoryStatus::too_few_runs);
  EXPECT_EQ(second.sentence,
            "1 earlier run matches; 1 is usable as a baseline (3 needed); only the configuration was compared");
  const HistoryComparison fourth = compare_runs(run(3), runs(3));
  EXPECT_EQ(fourth.status, HistoryStatus::compared);
  EXPECT_NE(fourth.sentence.find("compared with 3 runs"), std::string::npos) << fourth.sentence;
  EXPECT_NE(fourth.sentence.find("no change"), std::string::npos) << fourth.sentence;
}

TEST(History, ListsTheRunTimesOfTheNewestTwentyRuns) {
  std::vector<RunRecord> earlier = runs(25);
  earlier[23].accepted = false;
  const HistoryComparison history = compare_runs(run(25), earlier);
  ASSERT_EQ(history.earlier.size(), 20U);
  EXPECT_EQ(history.earlier.front().begin_utc_ns, run(5).begin_utc_ns);
  EXPECT_DOUBLE_EQ(history.earlier.back().seconds, run(24).seconds);
  EXPECT_TRUE(history.earlier[19].in_baseline);
  EXPECT_FALSE(history.earlier[18].in_baseline);
  EXPECT_TRUE(compare_runs(run(0), {}).earlier.empty());
}

TEST(History, KeepsHealthyRunsHealthy) {
  for (int earlier = 3; earlier <= 30; ++earlier) {
    const HistoryComparison history = compare_runs(run(earlier), runs(earlier));
    EXPECT_TRUE(findings(history).empty()) << earlier << ": " << history.sentence;
  }
}

TEST(History, SeesARunThatTookLonger) {
  const HistoryComparison history = compare_runs(run(8, 780), runs(8));
  const auto reported = findings(history);
  ASSERT_EQ(reported.size(), 1U) << history.sentence;
  EXPECT_EQ(reported[0].id, "history.slower");
  EXPECT_EQ(reported[0].kind, FindingKind::history);
  EXPECT_EQ(reported[0].severity, Severity::warning);
  ASSERT_FALSE(reported[0].evidence.empty());
  EXPECT_EQ(reported[0].evidence[0].metric, "job.run_time");
  EXPECT_NE(history.sentence.find("% longer than usual"), std::string::npos) << history.sentence;
}

TEST(History, SeesALongerRunBesideOneThatHadLittleToDo) {
  std::vector<RunRecord> earlier = runs(12);
  earlier[4].seconds = 200;
  const auto reported = findings(compare_runs(run(12, 780), earlier));
  ASSERT_EQ(reported.size(), 1U);
  EXPECT_EQ(reported[0].id, "history.slower");
  earlier[5].seconds = earlier[6].seconds = 200;
  EXPECT_TRUE(findings(compare_runs(run(12, 780), earlier)).empty()) << "its run time changes often";
}

TEST(History, DoesNotTakeAFewUnsteadyRunsForSteadyOnes) {
  std::vector<RunRecord> earlier = runs(3);
  const double seconds[] = {1000, 1180, 1030};
  for (std::size_t i = 0; i < earlier.size(); ++i) earlier[i].seconds = seconds[i];
  RunRecord now = run(3);
  now.seconds = 1400;
  const HistoryComparison history = compare_runs(now, earlier);
  EXPECT_TRUE(findings(history).empty()) << history.sentence;
}

TEST(History, DoesNotComplainOfARunThatWasFaster) {
  EXPECT_TRUE(findings(compare_runs(run(8, 400), runs(8))).empty());
  RunRecord other = run(12, 400);
  for (std::size_t c = 0; c < other.channels.size(); c += 2) other.channels[c].value *= 3;
  const auto reported = findings(compare_runs(other, runs(12)));
  ASSERT_EQ(reported.size(), 1U);
  EXPECT_NE(reported[0].sentence.find("; the run did not take longer."), std::string::npos) << reported[0].sentence;
}

TEST(History, SaysWhatIsNewSinceWhen) {
  RunRecord now = run(8);
  now.facts[1].second = "6.5.0";
  now.facts.emplace_back("vm.swappiness", "60");
  now.channels[5].value *= 3;
  const HistoryComparison history = compare_runs(now, runs(8));
  ASSERT_EQ(history.changes.size(), 3U);
  EXPECT_EQ(history.changes[0].name, "metric_15");
  EXPECT_NEAR(history.changes[0].percent, 200, 20);
  EXPECT_EQ(history.changes[1].name, "kernel.release");
  EXPECT_EQ(history.changes[1].before, "6.1.0");
  EXPECT_EQ(history.changes[1].now, "6.5.0");
  EXPECT_EQ(history.changes[1].since_utc_ns, run(7).begin_utc_ns);
  EXPECT_EQ(history.changes[2].before, "");
  EXPECT_NE(history.sentence.find("new since the run of 2025-11-20 17:32:05 UTC: kernel.release is 6.5.0, was 6.1.0"),
            std::string::npos)
      << history.sentence;
  EXPECT_TRUE(findings(history).empty()) << "one channel of sixty that costs no time is no finding";
}

TEST(History, RecordsOnlyTheNamesOfFactsThatDifferAmongTheNodes) {
  NodeProfile one;
  NodeProfile other;
  one.facts.emplace_back(std::string("cpu.governor"), std::string("performance"));
  other.facts = one.facts;
  one.facts.emplace_back(std::string("kernel.release"), std::string("6.1.0"));
  other.facts.emplace_back(std::string("kernel.release"), std::string("6.5.0"));
  RunRecord record;
  summarise_nodes({&one, &other}, record);
  EXPECT_EQ(record.facts, (std::vector<std::pair<std::string, std::string>>{{"cpu.governor", "performance"}}));
  EXPECT_EQ(record.mixed_facts, std::vector<std::string>{"kernel.release"});
}

TEST(History, CallsNoFactGoneThatDiffersAmongTheNodes) {
  RunRecord now = run(8);
  now.facts.pop_back();
  now.mixed_facts = {"kernel.release"};
  EXPECT_TRUE(compare_runs(now, runs(8)).changes.empty());
  std::vector<RunRecord> earlier = runs(8);
  std::swap(earlier.back().facts, now.facts);
  std::swap(earlier.back().mixed_facts, now.mixed_facts);
  EXPECT_TRUE(compare_runs(now, earlier).changes.empty());
  now.mixed_facts.clear();
  now.facts.pop_back();
  now.facts.emplace_back("env.OMP_NUM_THREADS", "4");
  const HistoryComparison history = compare_runs(now, runs(8));
  ASSERT_EQ(history.changes.size(), 2U);
  EXPECT_EQ(fact_words(history.changes[0]), "env.OMP_NUM_THREADS is 4, was not set");
  EXPECT_EQ(fact_words(history.changes[1]), "kernel.release is not recorded, was 6.1.0") << "it may not be readable";
}

TEST(History, CallsNoFactNewBesideARunWhoseFactsWereNotKept) {
  std::vector<RunRecord> earlier = runs(8);
  earlier.back().facts.clear();
  EXPECT_TRUE(compare_runs(run(8), earlier).changes.empty());
}

TEST(History, TellsOtherWorkInTheSameTime) {
  RunRecord now = run(12);
  for (std::size_t c = 0; c < now.channels.size(); c += 2) now.channels[c].value *= 3;
  const auto reported = findings(compare_runs(now, runs(12)));
  ASSERT_EQ(reported.size(), 1U);
  EXPECT_EQ(reported[0].id, "history.changed");
  EXPECT_EQ(reported[0].severity, Severity::info);
  EXPECT_TRUE(reported[0].sentence.starts_with("30 channels changed by at least ")) << reported[0].sentence;
}

TEST(History, LearnsNothingFromRunsWithFindings) {
  std::vector<RunRecord> earlier = runs(5);
  for (int i = 5; i < 15; ++i) {
    earlier.push_back(run(i, 800));
    earlier.back().accepted = false;
  }
  const HistoryComparison history = compare_runs(run(15, 800), earlier);
  EXPECT_EQ(history.runs, 15U);
  EXPECT_EQ(history.accepted, 5U);
  ASSERT_EQ(findings(history).size(), 1U) << "ten slow runs have not become normal";
  EXPECT_EQ(history.changes[0].since_utc_ns, run(4).begin_utc_ns);
}

TEST(History, NamesTheNumberOfRunsThatItComparedWith) {
  const HistoryComparison history = compare_runs(run(57, 780), runs(57));
  EXPECT_TRUE(history.sentence.starts_with("compared with the last 20 of 57 runs since ")) << history.sentence;
  const auto reported = findings(history);
  ASSERT_EQ(reported.size(), 1U);
  EXPECT_NE(reported[0].sentence.find("; the median of 20 earlier runs is "), std::string::npos)
      << reported[0].sentence;
}

TEST(History, SeesADriftAgainstTheOldestRuns) {
  std::vector<RunRecord> earlier;
  for (int i = 0; i < 40; ++i) earlier.push_back(run(i, 600 * (1 + 0.008 * i)));
  const HistoryComparison history = compare_runs(run(40, 600 * 1.32), earlier);
  ASSERT_FALSE(history.changes.empty());
  EXPECT_EQ(history.changes[0].what, HistoryChange::What::run_time);
  const auto reported = findings(history);
  ASSERT_EQ(reported.size(), 1U);
  EXPECT_TRUE(history.changes[0].drift);
  EXPECT_EQ(reported[0].id, "history.drift");
  EXPECT_NE(history.sentence.find("% longer than its first runs ("), std::string::npos) << history.sentence;
  EXPECT_EQ(reported[0].impact.how, "difference to the median of its first runs");
  // Configurations of the first runs were not compared.
  EXPECT_TRUE(reported[0].sentence.ends_with("No configuration fact changed since the run of 2025-11-22 01:32:05 UTC."))
      << reported[0].sentence;
}

TEST(History, ComparesLikeWithLikeOnly) {
  std::vector<RunRecord> earlier = runs(6);
  for (RunRecord& record : earlier) record.key = "eight nodes";
  EXPECT_EQ(compare_runs(run(6), earlier).status, HistoryStatus::never_compared);
  std::vector<RunRecord> own = runs(4);
  own.push_back(run(4));  // an earlier report of this run
  own.push_back(run(3));  // a copied directory
  EXPECT_EQ(compare_runs(run(4), own).runs, 4U);
  EXPECT_EQ(compare_runs(run(2), runs(6)).runs, 2U) << "a report made again is not held against later runs";
}

TEST(History, ComparesATaskOfAnArrayWithTheSameTaskOnly) {
  std::vector<RunRecord> earlier = runs(6);
  for (std::size_t i = 0; i < earlier.size(); ++i) earlier[i].array = "4710_" + std::to_string(i);
  RunRecord now = run(6, 900);
  now.array = "4710_6";
  const HistoryComparison sibling = compare_runs(now, earlier);
  EXPECT_EQ(sibling.status, HistoryStatus::never_compared) << sibling.sentence;
  EXPECT_EQ(sibling.reason, "no earlier run of this task of the array is known");
  now.array = "4720_3";
  EXPECT_EQ(compare_runs(now, earlier).runs, 1U) << "the same task of an earlier array";
  now.array.clear();
  EXPECT_EQ(compare_runs(now, earlier).runs, 0U);
}

TEST(History, ComparesRunsOnTheSameResourcesOnly) {
  for (const char* fact :
       {"cpu.model", "gpu.models", "machine.model", "env.SLURM_CPUS_ON_NODE", "env.SLURM_GPUS_ON_NODE"}) {
    const auto on = [fact](RunRecord record, const char* value) {
      record.facts.emplace(record.facts.begin(), fact, value);
      return record;
    };
    std::vector<RunRecord> earlier;
    for (int i = 0; i < 6; ++i) earlier.push_back(on(run(i), "new"));
    const HistoryComparison first = compare_runs(on(run(6, 900), "old"), earlier);
    EXPECT_EQ(first.status, HistoryStatus::too_few_runs);
    EXPECT_TRUE(findings(first).empty()) << "another model, or fewer cpus, are no slowdown";
    EXPECT_NE(first.sentence.find(std::string(fact) + " is old, was new"), std::string::npos) << first.sentence;
    EXPECT_FALSE(first.earlier.front().in_baseline);
    for (int i = 6; i < 9; ++i) earlier.push_back(on(run(i, 900), "old"));
    const HistoryComparison fourth = compare_runs(on(run(9, 900), "old"), earlier);
    EXPECT_EQ(fourth.accepted, 3U);
    EXPECT_TRUE(findings(fourth).empty()) << fourth.sentence;
    EXPECT_EQ(findings(compare_runs(on(run(9, 900), "new"), earlier)).size(), 1U);
    EXPECT_EQ(compare_runs(run(9), earlier).accepted, 9U) << "its own are not known";
  }
}

TEST(History, TellsNoMemoryOfAnotherNodeThatDiffersByLessThanAModule) {
  std::vector<RunRecord> earlier = runs(6);
  for (RunRecord& record : earlier) record.facts.emplace_back("memory.total", "137438953472");
  RunRecord now = run(6);
  now.facts.emplace_back("memory.total", "137438945280");
  EXPECT_TRUE(compare_runs(now, earlier).changes.empty());
  now.facts.back().second = "68719476736";
  EXPECT_EQ(compare_runs(now, earlier).changes.size(), 1U);
}

TEST(History, TellsWhyEarlierRunsWereLeftOut) {
  std::vector<RunRecord> earlier = runs(6);
  const auto reject = [&earlier](std::size_t i, std::string why_not) {
    earlier[i].accepted = false;
    earlier[i].why_not = std::move(why_not);
  };
  const auto reason = [&earlier](const RunRecord& now) {
    const HistoryComparison history = compare_runs(now, earlier);
    EXPECT_TRUE(history.sentence.starts_with(history.reason + "; only the configuration was compared"))
        << history.sentence;
    return history.reason;
  };
  for (const std::size_t i : {0U, 1U, 2U}) reject(i, "it failed");
  reject(3, "it had a finding: cpu.steal");
  EXPECT_EQ(reason(run(6)),
            "6 earlier runs match; 2 are usable as a baseline (3 needed); 3 were left out, each because it failed, and "
            "1 for other reasons");
  reject(0, "it had a finding: mem.swap_activity");
  EXPECT_EQ(reason(run(6)),
            "6 earlier runs match; 2 are usable as a baseline (3 needed); 2 were left out, each because it failed, and "
            "2 for other reasons")
      << "of two reasons as frequent, it is the same in each report";
  reject(4, "it had a finding: cpu.steal");
  EXPECT_NE(reason(run(6)).find("3 were left out, each because it had a finding, and 2 for"), std::string::npos);
  for (std::size_t i = 1; i < earlier.size(); ++i) reject(i, "");
  EXPECT_NE(reason(run(6)).find("because it was not accepted, for a reason that was not recorded"), std::string::npos);
  earlier = runs(1);
  reject(0, "it failed");
  EXPECT_EQ(reason(run(6)),
            "1 earlier run matches; 0 are usable as a baseline (3 needed); 1 was left out because it failed");
  const auto other = [&](const char* fact) {
    earlier = runs(1);
    earlier[0].facts.emplace_back(fact, "now");
    RunRecord now = run(6);
    now.facts.emplace_back(fact, "then");
    return reason(now);
  };
  EXPECT_TRUE(other("cpu.model").ends_with("1 was left out because it ran on other hardware (cpu.model)"));
  EXPECT_TRUE(other("env.SLURM_CPUS_ON_NODE").ends_with("because it had another number of cpus on a node"));
  EXPECT_TRUE(other("env.SLURM_GPUS_ON_NODE").ends_with("because it had another number of GPUs on a node"));
}

TEST(History, DoesNotTakeMissingForZero) {
  std::vector<RunRecord> earlier = runs(6);
  for (std::size_t i = 3; i < 6; ++i) earlier[i].channels.erase(earlier[i].channels.begin() + 7);
  EXPECT_TRUE(compare_runs(run(6), earlier).changes.empty()) << "three runs without the probe";
  RunRecord now = run(6);
  now.zeros = {now.channels[9].name};
  now.channels.erase(now.channels.begin() + 9);
  const HistoryComparison history = compare_runs(now, runs(6));
  ASSERT_EQ(history.changes.size(), 1U);
  EXPECT_EQ(history.changes[0].observed, 0.0);
}

TEST(History, ComparesNoNumbersOfDifferentUnits) {
  std::vector<RunRecord> earlier = runs(6);
  for (RunRecord& record : earlier) {
    record.channels[7].unit = "cpus";
    record.channels[7].value /= 1000;
  }
  const HistoryComparison history = compare_runs(run(6), earlier);
  EXPECT_TRUE(history.changes.empty()) << history.sentence;
  EXPECT_EQ(history.channels, 59U);
}

TEST(History, WritesAndReadsARecord) {
  RunRecord written = run(3);
  written.zeros = {"z"};
  written.findings = {"cpu.outsider"};
  const RunRecord read = parse_run(render_run(written));
  EXPECT_EQ(read.run_id, "run3");
  EXPECT_EQ(read.channels.size(), 60U);
  EXPECT_EQ(read.value_of("metric_12"), written.value_of("metric_12"));
  EXPECT_EQ(read.value_of("z"), 0);
  EXPECT_TRUE(std::isnan(read.value_of("unheard")));
  EXPECT_EQ(read.facts, written.facts);
  for (const char* text :
       {"", "{}", "[]", "{\"schema\":\"reveal.run/2\"}", "{\"schema\":\"reveal.run/1\",\"run_id\":7}"}) {
    EXPECT_ANY_THROW(static_cast<void>(parse_run(text))) << text;
  }
}

class HistoryIndex : public testing::Test {
 protected:
  /// A job directory with its record, known to the index.
  void report(int number) {
    const fs::path directory = work_ / "jobs" / ("reveal-" + std::to_string(number));
    fs::create_directories(directory);
    publish_file(directory, kRunRecordFile, render_run(run(number)));
    RunIndex(state_).put(directory, run(number));
  }

  TemporaryDirectory directory_of_test_;
  const fs::path work_ = directory_of_test_.path();
  const fs::path state_ = work_ / "state/reveal";
};

TEST_F(HistoryIndex, FindsTheRunsOfAKey) {
  for (int i = 0; i < 3; ++i) report(i);
  report(2);  // made again
  RunIndex index(state_);
  EXPECT_FALSE(index.rebuilt());
  EXPECT_EQ(index.runs("key").size(), 3U);
  EXPECT_TRUE(index.runs("another").empty());
}

TEST_F(HistoryIndex, FindsTheRunsOfATaskOfAnArray) {
  RunIndex index(state_);
  for (int i = 0; i < 4; ++i) {
    RunRecord record = run(i);
    record.array = std::to_string(4710 + i) + (i < 3 ? "_3" : "_103");
    index.put(work_ / "jobs" / std::to_string(i), record);
  }
  EXPECT_EQ(index.runs("key").size(), 4U);
  EXPECT_EQ(index.runs("key", "3").size(), 3U);
  EXPECT_EQ(index.runs("key", "103").size(), 1U);
  EXPECT_TRUE(index.runs("key", "4").empty());
}

TEST_F(HistoryIndex, IsMadeAgainFromTheDirectories) {
  for (int i = 0; i < 4; ++i) report(i);
  for (const char* damage : {"", "garbage that is no database, and long enough to be looked at as one"}) {
    std::ofstream(state_ / "history.sqlite", std::ios::trunc) << damage;
    RunIndex index(state_);
    EXPECT_EQ(index.runs("key").size(), 4U);
    EXPECT_EQ(index.rebuilt(), *damage != '\0');
  }
  fs::remove(state_ / "history.sqlite");
  EXPECT_EQ(RunIndex(state_).runs("key").size(), 4U);
}

TEST_F(HistoryIndex, IsFilledAgainIfThatWasInterrupted) {
  for (int i = 0; i < 4; ++i) report(i);
  const fs::path empty = work_ / "state/empty";
  EXPECT_TRUE(RunIndex(empty).runs("key").empty());
  fs::copy_file(empty / "history.sqlite", state_ / "history.sqlite", fs::copy_options::overwrite_existing);
  EXPECT_TRUE(RunIndex(state_).runs("key").empty()) << "it was filled: there was nothing";
  std::fstream file(state_ / "history.sqlite", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(60);  // user_version (sqlite.org/fileformat.html): tables are there, and their rows were never committed
  file.write("\0\0\0\0", 4);
  file.close();
  RunIndex index(state_);
  EXPECT_EQ(index.runs("key").size(), 4U);
  EXPECT_FALSE(index.rebuilt()) << "it was not damaged";
}

TEST_F(HistoryIndex, SurvivesDamageInTheMiddle) {
  for (int i = 0; i < 12; ++i) report(i);
  const auto size = fs::file_size(state_ / "history.sqlite");
  {
    std::fstream file(state_ / "history.sqlite", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(4096));
    for (std::uintmax_t i = 4096; i < size; ++i) file.put('\x5a');
  }
  RunIndex index(state_);
  EXPECT_TRUE(index.rebuilt());
  EXPECT_EQ(index.runs("key").size(), 12U) << "nothing is lost that lies beside a report";
}

TEST_F(HistoryIndex, IsNotPutAsideWhereTheDiskIsFull) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit full = before;
  full.rlim_cur = 0;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  EXPECT_ANY_THROW(RunIndex{state_});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_FALSE(fs::exists(state_ / "history.sqlite.damaged"));
  report(1);
  EXPECT_EQ(RunIndex(state_).runs("key").size(), 1U);
}

TEST_F(HistoryIndex, KeepsManyWritersApart) {
  std::vector<std::jthread> writers;
  for (int w = 0; w < 4; ++w) {
    writers.emplace_back([this, w] {
      for (int i = 0; i < 5; ++i) report(10 * w + i);
    });
  }
  writers.clear();
  EXPECT_EQ(RunIndex(state_).runs("key").size(), 20U);
}

TEST_F(HistoryIndex, ForgetsOneDirectory) {
  for (int i = 0; i < 3; ++i) report(i);
  RunIndex index(state_);
  index.forget(work_ / "jobs/reveal-1");
  index.forget(work_ / "jobs/reveal-99");
  EXPECT_EQ(index.runs("key").size(), 2U);
}

/// With 260 channels.
RunRecord large_run(int number) {
  RunRecord record = run(number);
  for (int c = 100; c < 300; ++c) {
    record.channels.push_back({"other_" + std::to_string(c), "count/s", Subsystem::cpu, Kind::counter, 0.1 * c});
  }
  record.mixed_facts.emplace_back("memory.speed");
  return record;
}

TEST_F(HistoryIndex, KeepsTheChannelsOfRunsThatLaterOnesAreComparedWith) {
  RunIndex index(state_);
  constexpr int kRuns = 215;
  for (int i = 0; i < kRuns; ++i) index.put("/runs/reveal-" + std::to_string(i), large_run(i));
  const std::vector<RunRecord> compared = index.runs("key");
  EXPECT_EQ(compared.size(), 210U);
  for (const RunRecord& record : compared) EXPECT_EQ(record.channels.size(), 260U) << record.run_id;
  const auto all = index.newest(1000, [](const RunRecord&) { return true; });
  ASSERT_EQ(all.size(), static_cast<std::size_t>(kRuns)) << "each is still found by its number";
  EXPECT_EQ(all[202].second.run_id, "run12");
  EXPECT_TRUE(all[202].second.channels.empty());
  EXPECT_TRUE(all[202].second.facts.empty());
  EXPECT_TRUE(all[202].second.mixed_facts.empty());
}

TEST_F(HistoryIndex, KeepsTheChannelsOfTheNewestRunsOfEachTask) {
  RunIndex index(state_);
  constexpr int kOfOneTask = 22;
  constexpr int kRuns = 230;
  for (int i = 0; i < kRuns; ++i) {
    RunRecord record = large_run(i);
    record.facts.emplace(record.facts.begin() + 1, "env.NCCL_IB_HCA", "mlx5_7");
    record.array = i < kOfOneTask ? std::to_string(4700 + i) + "_7" : "4730_" + std::to_string(1000 + i);
    index.put("/runs/reveal-" + std::to_string(i), record);
  }
  const std::vector<RunRecord> compared = index.runs("key", "7");
  ASSERT_EQ(compared.size(), static_cast<std::size_t>(kOfOneTask));
  for (const RunRecord& record : compared) {
    const bool old = record.run_id == "run10" || record.run_id == "run11";
    EXPECT_EQ(record.channels.empty(), old) << record.run_id;
    EXPECT_EQ(record.facts.empty(), old) << record.run_id;
  }
  for (int task = 1000 + kOfOneTask; task < 1000 + kRuns; ++task) {
    const std::vector<RunRecord> alone = index.runs("key", std::to_string(task));
    ASSERT_EQ(alone.size(), 1U) << task;
    EXPECT_EQ(alone.front().channels.size(), 260U) << "beside the other tasks of a large array: " << task;
  }
}

TEST_F(HistoryIndex, RemembersTheNewestFolders) {
  RunIndex index(state_);
  std::ofstream roots(state_ / "history.roots");
  for (int i = 0; i < 300; ++i) roots << "/runs/" << i << "\n";
  roots.close();
  index.put("/runs/new/reveal-1", run(1));
  const std::set<std::string> remembered = remembered_roots(state_);
  EXPECT_EQ(remembered.size(), 200U);
  EXPECT_TRUE(remembered.contains("/runs/new"));
  EXPECT_TRUE(remembered.contains("/runs/299"));
  EXPECT_FALSE(remembered.contains("/runs/0"));
  EXPECT_LT(fs::file_size(state_ / "history.roots"), 4000U) << "it does not grow without end";
}

TEST_F(HistoryIndex, IsOfThisUserAlone) {
  fs::create_directories(state_);
  fs::permissions(state_, fs::perms::all);
  EXPECT_TRUE(RunIndex(state_).runs("key").empty());
  EXPECT_EQ(fs::status(state_).permissions() & (fs::perms::group_write | fs::perms::others_write), fs::perms::none);
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a directory of another user";
  ASSERT_EQ(::chown(state_.c_str(), 65534, 65534), 0);
  EXPECT_ANY_THROW(RunIndex{state_});
}

TEST_F(HistoryIndex, SaysWhenThereIsNoPlaceForIt) {
  std::ofstream(work_ / "file") << "x";
  EXPECT_ANY_THROW(RunIndex(work_ / "file/state"));
}

TEST_F(HistoryIndex, IgnoresForeignRecords) {
  fs::create_directories(work_ / "jobs/a");
  fs::create_directories(work_ / "jobs/b");
  std::ofstream(work_ / "jobs/a/run.json") << "{\"scripts\":{}}";
  publish_file(work_ / "jobs/b", kRunRecordFile, render_run(run(1)));
  EXPECT_EQ(records_in(work_ / "jobs").size(), 1U);
  EXPECT_TRUE(records_in(work_ / "nowhere").empty());
}

TEST_F(HistoryIndex, LooksAtAllRecordsOfAFolderOnlyIfAsked) {
  for (int i = 0; i < 301; ++i) {
    const fs::path directory = work_ / "jobs" / std::to_string(i);
    fs::create_directories(directory);
    publish_file(directory, kRunRecordFile, render_run(run(1)));
  }
  EXPECT_EQ(records_in(work_ / "jobs").size(), 300U);
  EXPECT_EQ(records_in(work_ / "jobs", RecordsIn::all).size(), 301U);
}

}  // namespace
}  // namespace reveal::tests::history_test
