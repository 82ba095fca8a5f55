#include "postproc/telemetry/load.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <optional>

#include "hdf5schema/basics/error.h"
#include "postproc/telemetry/job.h"
#include "postproc/telemetry/job_file.h"
#include "tests/unit/hdf5schema/sample_trace.h"

namespace reveal::tests::load_test {
namespace {

constexpr std::int64_t kStep = 100'000'000;
constexpr std::int64_t kUtc = 1'700'000'000'000'000'000;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Ticks at the given steps of the monotonic clock, each a little late.
FamilyRows family(Kind kind, std::vector<std::int64_t> steps, std::vector<double> values,
                  std::int64_t period_steps = 1) {
  FamilyRows rows;
  rows.spec.path = "cpu/times";
  rows.spec.kind = kind;
  rows.spec.period = std::chrono::nanoseconds(period_steps * kStep);
  rows.channels = {{.metric = "cpu.user", .instance = "cpu0"}};
  for (const std::int64_t step : steps) rows.time_ns.push_back(step * kStep + 3'000'000);
  rows.values = std::move(values);
  return rows;
}

std::vector<double> laid(const FamilyRows& rows, std::int64_t last_step) {
  const Grid grid(3'000'000, last_step * kStep + 3'000'000, kUtc, std::chrono::nanoseconds(kStep));
  Telemetry telemetry;
  lay_on_grid(
      grid, 0, grid.samples(), 1, [&](std::size_t) { return &rows; }, telemetry);
  const auto series = telemetry.series(0);
  return {series.begin(), series.end()};
}

void expect_same(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << i << ": " << got[i];
    } else {
      EXPECT_DOUBLE_EQ(got[i], expected[i]) << i;
    }
  }
}

TEST(MergeLoad, CountsEachStepAfterTheFirstTick) {
  expect_same(laid(family(Kind::counter, {0, 1, 2, 3}, {kNaN, 5, 6, 7}), 3), {5, 6, 7});
}

TEST(MergeLoad, LaysEachFamilyAsIfItWereAlone) {
  const std::vector<FamilyRows> families{
      family(Kind::counter, {0, 1, 2, 3, 5, 6}, {kNaN, 5, 6, 7, 8, 9}),
      family(Kind::counter, {0, 1, 2, 3, 5, 6}, {1, 2, 3, 4, 5, 6}, 3),
      family(Kind::gauge, {0, 1, 2, 3, 5, 6}, {1, 2, 3, 4, 5, 6}),
      family(Kind::gauge, {0, 1, 2, 3, 5, 6}, {1, kNaN, 3, 4, 5, 6}, 3),
      family(Kind::gauge, {0, 3, 6}, {1, 2, 3}, 3),
      family(Kind::counter, {}, {}),
      family(Kind::counter, {0, 1, 2, 3, 5, 6}, {9, 8, 7, 6, 5, 4}),
  };
  const Grid grid(3'000'000, 6 * kStep + 3'000'000, kUtc, std::chrono::nanoseconds(kStep));
  Telemetry together;
  lay_on_grid(
      grid, 0, grid.samples(), families.size(), [&](std::size_t f) { return &families[f]; }, together);
  for (std::size_t f = 0; f < families.size(); ++f) {
    const auto series = together.series(f);
    expect_same({series.begin(), series.end()}, laid(families[f], 6));
  }
}

TEST(MergeLoad, AnalysesFinerTracesAtATenthOfASecond) {
  using namespace std::chrono_literals;
  for (const auto& [interval, step] : std::initializer_list<std::pair<std::chrono::milliseconds, std::int64_t>>{
           {10ms, 100}, {30ms, 120}, {100ms, 100}, {250ms, 250}}) {
    EXPECT_EQ(Grid(0, kStep, 0, interval).step_ns(), step * 1'000'000);
  }
  FamilyRows rows = family(Kind::counter, {}, {});
  rows.spec.period = 20ms;
  constexpr std::int64_t kTick = 20'000'000;
  for (std::int64_t tick = 2; tick <= 22; ++tick) {  // the first whole step begins at the fifth, the last ends at 20
    rows.time_ns.push_back(tick * kTick + 3'000'000);
    rows.values.push_back(tick == 8 ? kNaN : tick == 9 ? 4 : 2);  // a reading is missing, its increment is not
  }
  const Grid grid(rows.time_ns.front(), rows.time_ns.back(), kUtc, 20ms);
  EXPECT_EQ(grid.begin_utc_ns(), kUtc + kStep);
  const auto laid_finely = [&] {
    Telemetry telemetry;
    lay_on_grid(
        grid, 0, grid.samples(), 1, [&](std::size_t) { return &rows; }, telemetry);
    return std::vector<double>(telemetry.series(0).begin(), telemetry.series(0).end());
  };
  EXPECT_EQ(laid_finely(), std::vector<double>({10, 10, 10}));
  rows.spec.kind = Kind::gauge;
  EXPECT_EQ(laid_finely(), std::vector<double>({2, 2, 2})) << "a level: the last one of each step";
}

TEST(MergeLoad, SpreadsAnIncrementOverTheGapItCovers) {
  expect_same(laid(family(Kind::counter, {0, 1, 4, 5}, {kNaN, 5, 9, 2}), 5), {5, 3, 3, 3, 2});
}

TEST(MergeLoad, LeavesALongGapMissing) {
  const auto series = laid(family(Kind::counter, {0, 1, 61, 62}, {kNaN, 5, 600, 2}), 62);
  EXPECT_DOUBLE_EQ(series[0], 5);
  for (std::size_t t = 1; t <= 60; ++t) EXPECT_TRUE(std::isnan(series[t])) << t;
  EXPECT_DOUBLE_EQ(series[61], 2);
}

TEST(MergeLoad, SpreadsASlowCounterAndHoldsASlowLevel) {
  expect_same(laid(family(Kind::counter, {0, 5, 10}, {kNaN, 10, 20}, 5), 10), {2, 2, 2, 2, 2, 4, 4, 4, 4, 4});
  expect_same(laid(family(Kind::gauge, {0, 5, 10}, {1, 2, 3}, 5), 10), {1, 1, 1, 1, 2, 2, 2, 2, 2, 3});
}

TEST(MergeLoad, DoesNotBelieveALevelThatWasNotReadAgain) {
  expect_same(laid(family(Kind::gauge, {0, 1, 5}, {1, 2, 3}), 5), {2, 2, kNaN, kNaN, 3});
}

TEST(MergeLoad, KeepsMissingValuesMissing) {
  expect_same(laid(family(Kind::gauge, {0, 1, 2, 3}, {1, 5, kNaN, 7}), 3), {5, kNaN, 7});
}

TEST(MergeLoad, SpreadsAnIncrementSinceTheLastValueThatWasRead) {
  expect_same(laid(family(Kind::counter, {0, 1, 2, 3, 4}, {kNaN, 5, kNaN, 8, 3}), 4), {5, 4, 4, 3});
}

TEST(MergeLoad, LeavesALongRunOfMissingValuesMissing) {
  std::vector<std::int64_t> steps(62);
  std::iota(steps.begin(), steps.end(), 0);
  std::vector<double> values(62, kNaN);
  values[1] = 5;
  values[60] = 600;
  values[61] = 2;
  const auto series = laid(family(Kind::counter, steps, values), 61);
  EXPECT_DOUBLE_EQ(series[0], 5);
  for (std::size_t t = 1; t < 60; ++t) EXPECT_TRUE(std::isnan(series[t])) << t;
  EXPECT_DOUBLE_EQ(series[60], 2);
}

TEST(MergeLoad, SpreadsACounterThatRestedInTheRowsOfASlowFamily) {
  constexpr std::int64_t kPeriod = 100;  // steps
  std::vector<std::int64_t> steps(20);
  for (std::size_t row = 0; row < steps.size(); ++row) steps[row] = static_cast<std::int64_t>(row) * kPeriod;
  std::vector<double> values(steps.size(), kNaN);
  values[1] = 100;
  values[17] = 3200;  // sixteen periods later
  const auto series = laid(family(Kind::counter, steps, values, kPeriod), steps.back());
  EXPECT_DOUBLE_EQ(series[0], 1);
  for (std::size_t t = kPeriod; t < 17 * kPeriod; ++t) EXPECT_DOUBLE_EQ(series[t], 2) << t;
  for (std::size_t t = 17 * kPeriod; t < series.size(); ++t) EXPECT_TRUE(std::isnan(series[t])) << t;
}

TEST(MergeLoad, SpreadsACounterOverTheRestThatItsFamilyStates) {
  constexpr std::int64_t kPeriod = 10;  // steps
  const auto last_value_after = [](std::int64_t periods, std::optional<std::int64_t> rest) {
    std::vector<std::int64_t> steps(static_cast<std::size_t>(periods) + 2);
    for (std::size_t row = 0; row < steps.size(); ++row) steps[row] = static_cast<std::int64_t>(row) * kPeriod;
    std::vector<double> values(steps.size(), kNaN);
    values[1] = 100;
    values.back() = static_cast<double>(20 * periods);
    FamilyRows rows = family(Kind::counter, steps, values, kPeriod);
    if (rest) rows.spec.longest_rest = *rest * rows.spec.period;
    return laid(rows, steps.back()).back();
  };
  EXPECT_DOUBLE_EQ(last_value_after(20, std::nullopt), 2);
  EXPECT_TRUE(std::isnan(last_value_after(21, std::nullopt)));
  EXPECT_DOUBLE_EQ(last_value_after(21, 30), 2);
  EXPECT_DOUBLE_EQ(last_value_after(30, 30), 2);
  EXPECT_TRUE(std::isnan(last_value_after(31, 30)));
  EXPECT_DOUBLE_EQ(last_value_after(3, 0), 2) << "a row that came late";
  EXPECT_TRUE(std::isnan(last_value_after(4, 0))) << "nothing was counted meanwhile";
  EXPECT_TRUE(std::isnan(last_value_after(101, 1000))) << "a file may state anything";
}

TEST(MergeLoad, LeavesALongGapMissingWithoutRowsInIt) {
  constexpr std::int64_t kPeriod = 10;  // steps
  const auto series = laid(family(Kind::counter, {0, 10, 20, 70, 80}, {kNaN, 10, kNaN, 600, 20}, kPeriod), 80);
  for (std::size_t t = 10; t < 70; ++t) EXPECT_TRUE(std::isnan(series[t])) << t;
  EXPECT_DOUBLE_EQ(series[70], 2);
}

TEST(MergeLoad, SaysThatTheWallClockWasSet) {
  NodeTrace trace;
  note_clock({{10, kUtc + 10, 1'000'000}, {20, kUtc + 10'800'000'000'020, 2'000'000}, {30, kUtc - 499'999'970, 0}},
             trace);
  EXPECT_EQ(trace.notes,
            (std::vector<std::string>{
                "the wall clock was set forward by 3 h 0 min during the job; times are those of the steady clock",
                "the wall clock was set back by 3 h 0 min during the job; times are those of the steady clock"}));
  EXPECT_DOUBLE_EQ(trace.clock_error_seconds, 0.002);
}

TEST(MergeLoad, KnowsTheTimesOfEventsWithoutSamples) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "n01.h5";
  TraceHeader header = sample_header();
  header.begin_utc_ns = kUtc;
  {
    TraceWriter writer(path, header);
    writer.start();
    writer.append_event({70 * kStep, "reveal", "begin", "0.1.0"});
    writer.close();
  }
  EXPECT_EQ(load_trace(path).utc_minus_monotonic_ns, kUtc - 70 * kStep);
}

TEST(MergeLoad, SaysWhatTheCollectorLost) {
  NodeTrace trace;
  trace.events = {
      {1, "clock", "ticks_missed", "3"}, {2, "clock", "ticks_missed", "1"}, {3, "reveal", "end", "stopped"}};
  note_losses(trace);
  EXPECT_EQ(trace.notes, std::vector<std::string>{"4 samples were missed"});
  EXPECT_FALSE(trace.rows_lost);

  trace.notes.clear();
  trace.events = {{1, "clock", "ticks_missed", "1"}};
  note_losses(trace);
  EXPECT_EQ(trace.notes, std::vector<std::string>{"1 sample was missed"});

  trace.notes.clear();
  trace.events = {{1, "trace", "rows_dropped", "kept the last 30 min; earlier rows were deleted, as configured"}};
  note_losses(trace);
  ASSERT_EQ(trace.notes.size(), 1U);
  EXPECT_TRUE(trace.notes[0].find("kept the last 30 min") != std::string::npos) << trace.notes[0];
  EXPECT_FALSE(trace.rows_lost) << "as the site decided";

  trace.notes.clear();
  trace.events.push_back({4, "trace", "rows_lost", "7 rows: the disk was slower than the collector"});
  for (int i = 0; i < 9; ++i) trace.events.push_back({5, "probe p" + std::to_string(i), "probe_lost", "no answer"});
  note_losses(trace);
  ASSERT_EQ(trace.notes.size(), 5U);
  EXPECT_EQ(trace.notes[0], "rows were lost (trace: 7 rows: the disk was slower than the collector)");
  EXPECT_EQ(trace.notes[1], "a probe was lost (probe p0: no answer)");
  EXPECT_TRUE(trace.rows_lost);
}

/// A closed trace of one counter family with the given ticks.
void write_trace(const std::filesystem::path& path, const std::string& node, std::size_t channels,
                 std::initializer_list<std::int64_t> ticks) {
  TraceHeader header = sample_header();
  header.node = node;
  TraceWriter writer(path, header);
  const auto id = writer.add_family(counter_family());
  for (std::size_t i = 0; i < channels; ++i) writer.add_channel(id, {.metric = "c" + std::to_string(i)});
  writer.start();
  const std::vector<std::int64_t> values(channels, 1);
  for (const std::int64_t tick : ticks) writer.append_row(id, kStep + tick * kStep, values);
  writer.close();
}

TEST(MergeLoad, RefusesMoreValuesThanAMachineHolds) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "n01.h5";
  write_trace(path, "n01", 60, {0, 1, 20'000'000});
  try {
    static_cast<void>(load_trace(path));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("too many to analyse"), std::string::npos) << error.what();
  }
}

TEST(MergeJob, NamesANodeByItsFileWhenItsOwnNameIsNoGroup) {
  const TemporaryDirectory directory;
  write_trace(directory.path() / "n07.h5", "rack/7", 1, {0, 1, 2});
  write_trace(directory.path() / "n08.h5", "", 1, {0, 1, 2});
  write_trace(directory.path() / "n09.h5", ".", 1, {0, 1, 2});
  const MergedJob job = merge_job_directory(directory.path(), MergeForm::self_contained);
  EXPECT_EQ(job.nodes, (std::vector<std::string>{"n07", "n08", "n09"}));
  EXPECT_TRUE(job.problems.empty());
}

TEST(MergeJob, KeepsAnEarlierRecoveryWhenANewOneFails) {
  const TemporaryDirectory directory;
  write_trace(directory.path() / "n02.h5", "n02", 1, {0, 1, 2});
  const TemporaryDirectory elsewhere;
  TraceWriter writer(elsewhere.path() / "n01.h5", sample_header());
  const auto id = writer.add_family(counter_family());
  writer.add_channel(id, {.metric = "c"});
  writer.start();
  const std::vector<std::int64_t> values{1};
  for (std::int64_t tick = 0; tick < 100; ++tick) writer.append_row(id, kStep + tick * kStep, values);
  wait_until_flushed(writer, kStep);
  std::filesystem::copy_file(elsewhere.path() / "n01.h5.part", directory.path() / "n01.h5.part");

  const auto earlier = directory.path() / "n01.recovered.h5";
  std::ofstream(earlier) << "earlier";
  std::filesystem::create_directories(directory.path() / ".n01.recovered.h5.tmp" / "in the way");
  const MergedJob job = merge_job_directory(directory.path(), MergeForm::links);
  EXPECT_EQ(job.nodes, std::vector<std::string>{"n02"});
  EXPECT_EQ(job.problems.size(), 1U);
  EXPECT_EQ(std::filesystem::file_size(earlier), 7U);
  std::filesystem::remove_all(directory.path() / ".n01.recovered.h5.tmp");
  const MergedJob again = merge_job_directory(directory.path(), MergeForm::links);
  EXPECT_EQ(again.nodes, (std::vector<std::string>{"n01", "n02"})) << again.problems.at(0);
  EXPECT_GT(std::filesystem::file_size(earlier), 7U);
}

TEST(MergeLoad, EndsAChannelWhereItDied) {
  FamilyRows rows = family(Kind::gauge, {0, 1, 2, 3}, {1, 2, 3, 4});
  rows.channels[0].died_ns = 2 * kStep + 3'000'000;
  expect_same(laid(rows, 3), {2, 3, kNaN});
}

TEST(MergeLoad, AlignsSampleZeroToWholeStepsOfWallTime) {
  const Grid grid(3'000'000, 10 * kStep, kUtc + 2'000'000, std::chrono::nanoseconds(kStep));
  EXPECT_EQ(grid.begin_utc_ns(), kUtc);
  EXPECT_EQ(grid.index(3'000'000), -1);
  EXPECT_EQ(grid.index(kStep + 4'000'000), 0);
}

TEST(MergeJob, FindsTheTracesOfOneNodeByTheirNames) {
  const TemporaryDirectory directory;
  const auto& path = directory.path();
  for (const char* name : {"n1.h5", "n1.h5.part", "n10.h5", "n1-2.h5", "n2.h5", ".n1.h5", "n1.summary.json"}) {
    std::ofstream(path / name) << name;
  }
  const std::vector<ListedTrace> traces = traces_of_node(path, "n1");
  ASSERT_EQ(traces.size(), 2U);
  EXPECT_EQ(traces[0].path, path / "n1.h5");
  EXPECT_EQ(traces[0].bytes, 5U);
  EXPECT_FALSE(traces[0].part);
  EXPECT_EQ(traces[1].path, path / "n1.h5.part");
  EXPECT_EQ(traces[1].node, "n1");
  EXPECT_TRUE(traces[1].part);
  EXPECT_TRUE(traces_of_node(path, "n3").empty());
  EXPECT_TRUE(traces_of_node(path / "nowhere", "n1").empty());
}

TEST(NoteLosses, SayThatOnlySomeMetricsWereRecorded) {
  NodeTrace trace;
  trace.events = {{0, "reveal", "metrics_selected", "94 names of selected.metrics"}};
  note_losses(trace);
  EXPECT_EQ(trace.notes,
            std::vector<std::string>{"only some metrics were recorded (reveal: 94 names of selected.metrics)"});
  EXPECT_FALSE(trace.rows_lost);
}

}  // namespace
}  // namespace reveal::tests::load_test
