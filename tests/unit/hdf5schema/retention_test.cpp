// The part of a trace that remains after a reduction: its last minutes, or one row a minute.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <vector>

#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/joined_trace.h"
#include "hdf5schema/rewrite.h"
#include "hdf5schema/trace_reader.h"
#include "hdf5schema/trace_writer.h"
#include "sample_trace.h"

namespace reveal::tests::retention_test {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kTick = 100'000'000;
constexpr std::int64_t kBegin = 5'000'000'000'000;

/// Channel c counts up by c + 1 a tick from 1,000, the level is the tick; one more channel appears after 100 s.
void record(TraceWriter& writer, int ticks) {
  const auto counters = writer.add_family(counter_family());
  const auto levels = writer.add_family(gauge_family());
  for (int i = 0; i < 3; ++i) writer.add_channel(counters, {.metric = "c" + std::to_string(i)});
  writer.add_channel(levels, {.metric = "level"});
  writer.set_snapshot({{"kernel.release", "6.1.0"}}, "<topology/>");
  writer.start();
  std::vector<std::int64_t> values(3);
  for (int tick = 0; tick < ticks; ++tick) {
    if (tick == 1000) {
      writer.add_channel(counters, {.metric = "late", .born_ns = kBegin + tick * kTick});
      values.push_back(0);
    }
    if (tick == 1500) writer.channel_died(counters, 1, kBegin + tick * kTick);
    for (std::size_t c = 0; c < values.size(); ++c) values[c] = 1000 + static_cast<std::int64_t>(c + 1) * tick;
    writer.append_row(counters, kBegin + tick * kTick, values);
    const std::int64_t level = tick;
    writer.append_row(levels, kBegin + tick * kTick, std::span(&level, 1));
    if (tick % 1000 == 0) writer.append_event({kBegin + tick * kTick, "test", "thousand", std::to_string(tick)});
    if (tick % 100 == 99 && tick + 1 < ticks) wait_until_flushed(writer, kBegin + tick * kTick);
  }
}

std::int64_t tick_of(std::int64_t time_ns) {
  return (time_ns - kBegin) / kTick;
}

/// Rows that follow each other without a gap, each with the values it was given.
void expect_whole(const TraceReader& reader, std::int64_t last_tick) {
  ASSERT_EQ(reader.families().size(), 2U);
  for (const TraceReader::Family& family : reader.families()) {
    const std::size_t rows = family.time_ns.size();
    ASSERT_GT(rows, 0U);
    EXPECT_EQ(tick_of(family.time_ns.back()), last_tick);
    EXPECT_EQ(tick_of(family.time_ns.front()), last_tick + 1 - static_cast<std::int64_t>(rows));
    const std::vector<std::int64_t> absolute = reader.read_absolute(family);
    const bool counts = family.spec.kind == Kind::counter;
    for (std::size_t c = 0; c < (counts ? 3U : 1U); ++c) {
      for (std::size_t row = 1; row < rows; ++row) {
        const std::int64_t tick = tick_of(family.time_ns[row]);
        const std::int64_t expected = counts ? 1000 + static_cast<std::int64_t>(c + 1) * tick : tick;
        ASSERT_EQ(absolute[c * rows + row], expected) << family.spec.path << " " << c << " " << tick;
      }
    }
  }
}

const TraceReader::Family& family_of(const TraceReader& reader, std::string_view path) {
  for (const TraceReader::Family& family : reader.families()) {
    if (family.spec.path == path) return family;
  }
  throw Error("no family " + std::string(path));
}

Retention last_minute() {
  return {.form = Retention::Form::rolling, .keep = 1min};
}

TEST(Retention, IsReadFromWords) {
  EXPECT_EQ(parse_retention("full")->form, Retention::Form::full);
  EXPECT_EQ(parse_retention("summary")->form, Retention::Form::summary);
  EXPECT_EQ(parse_retention("rolling=30min")->keep, 30min);
  for (const char* wrong : {"", "rolling", "rolling=", "rolling=5s", "rolling=x", "Full", "summary=1"})
    EXPECT_FALSE(parse_retention(wrong)) << wrong;
}

TEST(Retention, RollingKeepsTheLastMinutesAndBoundsTheDisk) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header(), {.retention = last_minute()});
  record(writer, 4000);
  EXPECT_TRUE(std::filesystem::exists(earlier_segment(path)));
  const TraceReader earlier(earlier_segment(path));
  EXPECT_LE(earlier.families()[0].time_ns.size(), 710U);
  writer.close();
  EXPECT_FALSE(std::filesystem::exists(earlier_segment(path)));
  const TraceReader reader(path);
  EXPECT_TRUE(reader.complete());
  expect_whole(reader, 3999);
  const TraceReader::Family& counters = family_of(reader, "memory/vmstat");
  EXPECT_GE(counters.time_ns.size(), 600U);
  EXPECT_LE(counters.time_ns.size(), 700U);
  ASSERT_EQ(counters.channels.size(), 4U);
  EXPECT_EQ(counters.channels[3].metric, "late");
  EXPECT_EQ(counters.channels[1].died_ns, kBegin + 1500 * kTick);
  EXPECT_EQ(reader.topology_xml(), "<topology/>");
  ASSERT_FALSE(reader.events().empty());
  EXPECT_EQ(reader.events()[0].code, "rows_dropped");
  EXPECT_EQ(reader.events()[0].time_ns, counters.time_ns.front());
  EXPECT_TRUE(reader.events()[0].text.starts_with("kept the last 6")) << reader.events()[0].text;
}

TEST(Retention, RollingKeepsAShortTraceWhole) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header(), {.retention = last_minute()});
  record(writer, 350);
  writer.close();
  const TraceReader reader(path);
  expect_whole(reader, 349);
  EXPECT_EQ(reader.families()[0].time_ns.size(), 350U);
  ASSERT_FALSE(reader.events().empty());
  EXPECT_EQ(reader.events()[0].code, "thousand");
}

TEST(Retention, RollingLosesAtMostOneFlushWhenKilled) {
  const TemporaryDirectory directory;
  for (const int ticks : {300, 900, 1350, 2500}) {
    const auto path = directory.path() / ("killed" + std::to_string(ticks) + ".h5");
    fork_child([&] {
      TraceWriter writer(path, sample_header(), {.retention = last_minute()});
      record(writer, ticks);
      return ::kill(::getpid(), SIGKILL);
    }).wait();
    const auto to = directory.path() / ("whole" + std::to_string(ticks) + ".h5");
    recover(path.string() + ".part", to);
    const TraceReader reader(to);
    const std::size_t rows = reader.families()[0].time_ns.size();
    const std::int64_t last = tick_of(reader.families()[0].time_ns.back());
    EXPECT_GE(last, ticks - 1 - 100);
    EXPECT_GE(rows, static_cast<std::size_t>(std::min(ticks - 100, 600))) << ticks;
    expect_whole(reader, last);
  }
}

TEST(Retention, RollingLeavesBothPartsWhereTheyCannotBeJoined) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  std::filesystem::create_directories(directory.path() / ".t.h5.compact" / "occupied");
  TraceWriter writer(path, sample_header(), {.retention = last_minute()});
  record(writer, 1000);
  writer.close();
  const TraceReader last(path);
  const TraceReader earlier(earlier_segment(path));
  expect_whole(last, 999);
  expect_whole(earlier, tick_of(last.families()[0].time_ns.front()) - 1);
}

TEST(Retention, RollingIsReadWithTheSegmentBeforeItWhereverItWasCut) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header(), {.retention = last_minute()});
  record(writer, 1350);  // the second segment has begun
  const std::filesystem::path copy = directory.path() / "copy.h5";
  std::filesystem::copy_file(path.string() + ".part", copy.string() + ".part");
  std::filesystem::copy_file(earlier_segment(path), earlier_segment(copy));
  const JoinedTrace joined(copy.string() + ".part");
  EXPECT_EQ(joined.left_out(), "");
  ASSERT_EQ(joined.families().size(), 2U);
  for (const JoinedFamily& family : joined.families()) {
    EXPECT_GT(family.rows(), family.newest().time_ns.size());
    std::vector<double> values;
    family.read(0, family.rows(), values);
    const bool counts = family.newest().spec.kind == Kind::counter;
    for (std::size_t row = 1; row < family.rows(); ++row) {
      ASSERT_EQ(family.times()[row] - family.times()[row - 1], kTick);
      ASSERT_EQ(values[row], counts ? 1.0 : static_cast<double>(tick_of(family.times()[row])));
    }
  }
  std::filesystem::resize_file(earlier_segment(copy), 3000);
  const JoinedTrace alone(copy.string() + ".part");
  EXPECT_NE(alone.left_out(), "");
  EXPECT_EQ(alone.families()[0].rows(), alone.families()[0].newest().time_ns.size());
}

TEST(Retention, SummaryHasMeanExtremesAndLastOfEveryMinute) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header(), {.retention = {.form = Retention::Form::summary}});
  record(writer, 1500);  // two minutes and a half
  writer.close();
  const TraceReader reader(path);
  EXPECT_TRUE(reader.complete());
  EXPECT_EQ(reader.families().size(), 7U);
  const TraceReader::Family& mean = family_of(reader, "memory/meminfo");
  ASSERT_EQ(mean.time_ns.size(), 3U);
  EXPECT_EQ(mean.spec.period, 1min);
  EXPECT_EQ(tick_of(mean.time_ns[0]), 599);
  EXPECT_EQ(reader.read(mean), (std::vector<double>{299.5, 899.5, 1349.5}));
  EXPECT_EQ(reader.read(family_of(reader, "memory/meminfo_min")), (std::vector<double>{0, 600, 1200}));
  EXPECT_EQ(reader.read(family_of(reader, "memory/meminfo_max")), (std::vector<double>{599, 1199, 1499}));
  const TraceReader::Family& last = family_of(reader, "memory/meminfo_last");
  EXPECT_EQ(reader.read(last), (std::vector<double>{599, 1199, 1499}));
  EXPECT_EQ(last.channels[0].metric, "level.last");
  const TraceReader::Family& counters = family_of(reader, "memory/vmstat");
  const std::vector<double> increments = reader.read(counters);
  EXPECT_EQ(increments[3], 2.0 * 599);  // the first value has no increment
  EXPECT_EQ(increments[4], 2.0 * 600);
  EXPECT_EQ(increments[5], 2.0 * 300);
  const std::vector<std::int64_t> absolute = reader.read_absolute(counters);
  EXPECT_EQ(absolute[5], 1000 + 2 * 1499);
  EXPECT_TRUE(std::isnan(increments[9]));  // before the late channel appeared
  EXPECT_EQ(reader.read(family_of(reader, "memory/vmstat_max"))[4], 2.0);
  EXPECT_EQ(reader.events().at(0).code, "summary");
}

}  // namespace
}  // namespace reveal::tests::retention_test
