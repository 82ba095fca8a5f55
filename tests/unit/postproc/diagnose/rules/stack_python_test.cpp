// Garbage collections and imports of Python programs.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "rule_recording.h"

namespace reveal::tests::stack_python_test {
namespace {

using R = RuleRecording;

/// Garbage collections that take so much of the time.
R collecting(double share, const R::Course& rate) {
  R node(300);
  node.counter("stack.calls", "rank0/python.gc", rate, "rank");
  node.counter(
      "stack.time", "rank0/python.gc", [=](double second) { return rate(second) > 0 ? share * 1e9 : 0; }, "rank");
  node.gauge(
      "stack.longest", "rank0/python.gc", [](double second) { return second < 200 ? 3e6 : 210e6; }, "rank");
  return node;
}

TEST(RuleStackGcPauses, MeasuresTheTimeInTheCollector) {
  const auto found = collecting(0.1, R::always(40)).findings("stack.gc_pauses");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_TRUE(found[0].impact.at_most) << "a GPU may have worked meanwhile";
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.1 * 240, 1);
  EXPECT_NE(found[0].sentence.find("collections a second, the longest took 210 ms."), std::string::npos)
      << found[0].sentence;
}

TEST(RuleStackGcPauses, TellsHowLongMostCollectionsTake) {
  R node = collecting(0.1, R::always(40));
  const std::vector<Finding> uncounted = node.findings("stack.gc_pauses");
  for (const Evidence& each : uncounted.at(0).evidence) EXPECT_NE(each.metric, "stack.histogram");
  node.counter("stack.histogram", "rank0/python.gc/2^22ns", R::always(39), "rank");
  node.counter("stack.histogram", "rank0/python.gc/2^28ns", R::always(1), "rank");
  node.counter("stack.histogram", "rank0/python.import/2^35ns", R::always(1000), "rank");
  node.counter("stack.histogram", "rank0/python.gc/2^ns", R::always(1000), "rank");  // no number
  std::map<std::string, double> durations;
  const std::vector<Finding> found = node.findings("stack.gc_pauses");
  for (const Evidence& each : found.at(0).evidence) {
    if (each.metric == "stack.histogram") durations[each.feature] = each.observed.value_or(0);
  }
  EXPECT_EQ(durations, (std::map<std::string, double>{{"half of the calls took less than", 4'194'304},
                                                      {"99 % of the calls took less than", 268'435'456}}));
}

TEST(RuleStackGcPauses, NamesThePartOfTheRunInWhichItCollects) {
  const R node = collecting(0.5, [](double second) { return second >= 100 && second < 260 ? 14.0 : 0; });
  const auto found = node.findings("stack.gc_pauses");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 100, 3);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 260, 3);
  EXPECT_NEAR(found[0].evidence.at(0).observed.value_or(0), 0.5, 0.02);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 80, 3);
}

TEST(RuleStackGcPauses, UsesThePartInWhichCollectionsWereMeasured) {
  const auto found_in = [](double measured_until) {
    R node(300);
    const auto until = [=](double value) {
      return [=](double second) { return second < measured_until ? value : kNaN; };
    };
    node.counter("stack.calls", "rank0/python.gc", until(40), "rank");
    node.counter("stack.time", "rank0/python.gc", until(0.1e9), "rank");
    return node.findings("stack.gc_pauses");
  };
  EXPECT_TRUE(found_in(64).empty()) << "too short";
  const auto found = found_in(80);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].evidence.at(0).observed.value_or(0), 0.1, 0.003);
  EXPECT_NE(found[0].sentence.find("; measured in 20 of 240 s."), std::string::npos) << found[0].sentence;
}

TEST(RuleStackGcPauses, IsSilentOnWhatJobsDo) {
  EXPECT_TRUE(collecting(0.01, R::always(40)).findings("stack.gc_pauses").empty()) << "little time";
  EXPECT_TRUE(
      collecting(0.9, [](double second) { return second < 55 ? 100.0 : 0; }).findings("stack.gc_pauses").empty())
      << "while it starts";
  EXPECT_TRUE(collecting(0.9, [](double second) { return second > 200 && second < 230 ? 100.0 : 0; })
                  .findings("stack.gc_pauses")
                  .empty())
      << "a phase";
  R none(300);
  EXPECT_THROW(static_cast<void>(none.findings("stack.gc_pauses")), Unavailable);
}

/// One import of 30 s, which is counted when it has ended, in a process that uses so many cpus meanwhile; another one
/// at its start.
R importing(double seconds, double cpus, double seconds_at_start = 0) {
  R node(300);
  for (const char* process : {"rank0", "rank1"}) {
    const std::string instance = std::string(process) + "/python.import";
    const R::Course time = [=](double second) {
      const double early = second >= 3 && second < 4 ? seconds_at_start : 0;
      return 1e9 * (second >= 40 && second < 41 ? seconds : early);
    };
    node.counter("stack.time", instance, time, "rank");
    const R::Course modules = [=](double second) {
      const double early = second >= 3 && second < 4 && seconds_at_start > 0 ? 90 : 0;
      return second >= 40 && second < 41 ? 1500 : early;
    };
    node.counter("stack.calls", instance, modules, "rank");
    node.counter(
        "process.cpu_time", process, [=](double second) { return second < 41 ? cpus * 1e9 : 1e9; }, "rank");
  }
  return node;
}

TEST(RuleStackImportStorm, FindsImportsThatWaitForFiles) {
  const auto found = importing(30, 0.1).findings("stack.import_storm");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].instances, (std::vector<std::string>{"rank0", "rank1"}));
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 30, 1);
  EXPECT_NEAR(importing(30, 0.1).second_of(found[0].intervals.at(0).begin_utc_ns), 11, 1)
      << "it began long before it was counted";
  EXPECT_NE(found[0].sentence.find("and used 0.1 cpus meanwhile, as did 1 other process: it waited for files."),
            std::string::npos)
      << found[0].sentence;
}

TEST(RuleStackImportStorm, LeavesOutTheFewModulesOfTheStart) {
  const R node = importing(30, 0.1, 2);
  const auto found = node.findings("stack.import_storm");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 11, 1);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 41, 1);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 30, 1) << "no more than the interval is long";
  const auto alone = importing(30, 0.1).findings("stack.import_storm");
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_EQ(found[0].sentence, alone[0].sentence) << "time and modules are those of the interval";
}

TEST(RuleStackImportStorm, IsSilentOnWhatJobsDo) {
  EXPECT_TRUE(importing(30, 0.95).findings("stack.import_storm").empty()) << "the modules compute";
  EXPECT_TRUE(importing(5, 0.1).findings("stack.import_storm").empty()) << "short";
  R crowded = importing(30, 0.1);
  for (const char* process : {"rank0", "rank1"}) {
    crowded.counter("process.wait_time", process, R::always(0.8e9), "rank");
  }
  EXPECT_TRUE(crowded.findings("stack.import_storm").empty()) << "they wait for a cpu";
  R other(300);
  other.counter("stack.time", "rank0/cudaMalloc", R::always(1e6), "rank");
  EXPECT_THROW(static_cast<void>(other.findings("stack.import_storm")), Unavailable) << "a Python without marks";
}

}  // namespace
}  // namespace reveal::tests::stack_python_test
