// Rows of a family that was read faster at times, as if it had not been.
#include "hdf5schema/regular_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "hdf5schema/rewrite.h"
#include "hdf5schema/trace_reader.h"
#include "tests/unit/hdf5schema/sample_trace.h"

namespace reveal::tests::regular_rows_test {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kTenth = 100'000'000;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

FamilySpec sometimes_faster(FamilySpec spec) {
  spec.period = 1s;
  spec.faster = 100ms;
  spec.clock = "test";
  return spec;
}

struct Rows {
  std::vector<std::int64_t> tenths;
  std::vector<double> values;
};

/// The wall clock is three tenths of a second ahead.
Rows merged(const FamilySpec& spec, Rows rows) {
  for (std::int64_t& time : rows.tenths) time *= kTenth;
  merge_extra_rows(spec, 3 * kTenth, rows.tenths, rows.values);
  for (std::int64_t& time : rows.tenths) time /= kTenth;
  return rows;
}

TEST(RegularRows, HaveOneForEachPeriodWithTheSumOfTheIncrements) {
  const Rows rows = merged(
      sometimes_faster(counter_family()),
      {{7, 17, 18, 19, 20, 27, 30, 37, 47}, {1, 2, 3, 4, kNan, 5, 6, 7, kNan, 10, 20, 30, 40, 50, 60, 70, 80, 90}});
  EXPECT_EQ(rows.tenths, (std::vector<std::int64_t>{7, 17, 27, 37, 47}));
  const std::vector<double> first(rows.values.begin(), rows.values.begin() + 4);
  EXPECT_EQ(first, (std::vector<double>{1, 2, 12, 13}));
  EXPECT_TRUE(std::isnan(rows.values[4]));
  EXPECT_EQ(std::vector<double>(rows.values.begin() + 5, rows.values.end()),
            (std::vector<double>{10, 20, 180, 150, 90}));
}

TEST(RegularRows, HaveTheLastKnownLevelOfEachPeriod) {
  const Rows rows = merged(sometimes_faster(gauge_family()), {{7, 8, 10, 17, 22}, {1, 2, 3, kNan, 5}});
  EXPECT_EQ(rows.tenths, (std::vector<std::int64_t>{7, 17, 22}));
  EXPECT_EQ(rows.values, (std::vector<double>{1, 3, 5}));
}

TEST(RegularRows, AreAllRowsWhereNoneIsExtra) {
  const Rows late = merged(sometimes_faster(counter_family()), {{7, 18, 27, 35, 47}, {1, 2, 3, 4, 5}});
  EXPECT_EQ(late.tenths, (std::vector<std::int64_t>{7, 18, 27, 35, 47}));
  FamilySpec usual = counter_family();
  usual.period = 1s;
  const Rows close = merged(usual, {{7, 8, 9, 10}, {1, 2, 3, 4}});
  EXPECT_EQ(close.values, (std::vector<double>{1, 2, 3, 4}));
  EXPECT_TRUE(merged(sometimes_faster(counter_family()), {}).tenths.empty());
}

TEST(RegularRows, OfTimesThatNoTraceHasAreBounded) {
  std::vector<std::int64_t> times = {INT64_MIN, -1, 0, 1, INT64_MAX};
  std::vector<double> values = {1, 2, 3, 4, 5};
  merge_extra_rows(sometimes_faster(counter_family()), INT64_MAX, times, values);
  EXPECT_EQ(times.size(), values.size());
}

/// Three minutes with a row each second and, from 5 s to 8 s, each tenth: a counter of ten a second, and a level that
/// is a hundred there and else zero.
void write_trace(const std::filesystem::path& path, bool faster, const Retention& retention = {},
                 const std::vector<ClockPair>& clocks = {{0, 0, 0}}) {
  TraceHeader header = sample_header();
  header.begin_utc_ns = 0;
  TraceWriter writer(path, header, {.retention = retention, .waits = true});
  const auto counter = writer.add_family(sometimes_faster(counter_family()));
  const auto level = writer.add_family(sometimes_faster(gauge_family()));
  for (const auto family : {counter, level}) writer.add_channel(family, {.metric = "m"});
  writer.start();
  for (const ClockPair& pair : clocks) writer.append_clock(pair);
  for (std::int64_t tenth = 10; tenth <= 1800; ++tenth) {
    const bool more = tenth >= 50 && tenth < 80;
    if (tenth % 10 != 0 && !(faster && more)) continue;
    const std::int64_t high = more ? 100 : 0;
    EXPECT_TRUE(writer.append_row(counter, tenth * kTenth, std::span(&tenth, 1)));
    EXPECT_TRUE(writer.append_row(level, tenth * kTenth, std::span(&high, 1)));
  }
  writer.close();
}

TEST(RegularRows, AreMarkedInTheTraceAndRewrittenWithTheOthers) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  write_trace(path, true);
  const TraceReader reader(path);
  ASSERT_EQ(reader.families().size(), 2U);
  for (const TraceReader::Family& family : reader.families()) {
    EXPECT_EQ(family.spec.faster, 100ms);
    EXPECT_EQ(family.spec.period, 1s);
    ASSERT_EQ(family.time_ns.size(), 207U);
    EXPECT_EQ(family.time_ns[33], 79 * kTenth);
    if (family.spec.kind != Kind::counter) continue;
    EXPECT_EQ(reader.read_absolute(family)[33], 79);
  }
}

TEST(RegularRows, WeighAsMuchAsOthersInASummary) {
  const TemporaryDirectory directory;
  for (const bool faster : {false, true}) {
    const auto path = directory.path() / (faster ? "faster.h5" : "usual.h5");
    write_trace(path, faster, {.form = Retention::Form::summary});
    const TraceReader reader(path);
    for (const TraceReader::Family& family : reader.families()) {
      const double value = reader.read(family).at(0);
      EXPECT_EQ(family.spec.faster, 0s) << family.spec.path;
      if (family.spec.path == "memory/meminfo") {
        EXPECT_DOUBLE_EQ(value, 300.0 / 60) << faster;
      }
      if (family.spec.path == "memory/vmstat_min") {
        EXPECT_EQ(value, 10) << faster;
      }
    }
  }
}

TEST(RegularRows, OfASummaryKeepTheirPeriodsWhereTheWallClockWasSetOnce) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  const std::vector<ClockPair> half_a_second_ahead_at_first = {
      {0, 5 * kTenth, 0}, {10 * kTenth, 10 * kTenth, 0}, {20 * kTenth, 20 * kTenth, 0}};
  write_trace(path, true, {.form = Retention::Form::summary}, half_a_second_ahead_at_first);
  const TraceReader reader(path);
  for (const TraceReader::Family& family : reader.families()) {
    if (family.spec.path == "memory/vmstat_min") {
      EXPECT_EQ(reader.read(family).at(0), 10);
    }
  }
}

TEST(RegularRows, OfASummaryAreWholePeriodsHoweverLongTheTraceIs) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceHeader header = sample_header();
  header.begin_utc_ns = 0;
  TraceWriter writer(path, header, {.retention = {.form = Retention::Form::summary}, .waits = true});
  const auto counter = writer.add_family(sometimes_faster(counter_family()));
  writer.add_channel(counter, {.metric = "m"});
  writer.start();
  writer.append_clock({0, 0, 0});
  // Row 6000 is within a second.
  for (std::int64_t tenth = 5; tenth <= 6110; ++tenth)
    EXPECT_TRUE(writer.append_row(counter, tenth * kTenth, std::span(&tenth, 1)));
  writer.close();
  const TraceReader reader(path);
  for (const TraceReader::Family& family : reader.families()) {
    if (family.spec.path == "memory/vmstat_min") {
      EXPECT_EQ(reader.read(family).at(10), 10);
    }
  }
}

TEST(RegularRows, OfAPeriodThatIsNoPartOfTheUsualOneAreAllRows) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header());
  for (const auto& [name, faster] : {std::pair("a/longer", 2000ms), std::pair("a/odd", 300ms)}) {
    FamilySpec spec = sometimes_faster(gauge_family(name));
    spec.faster = faster;
    writer.add_family(spec);
  }
  writer.close();
  const TraceReader reader(path);
  for (const TraceReader::Family& family : reader.families()) EXPECT_EQ(family.spec.faster, 0s);
}

}  // namespace
}  // namespace reveal::tests::regular_rows_test
