#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <span>
#include <thread>
#include <vector>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/trace_file.h"
#include "hdf5schema/trace_reader.h"
#include "hdf5schema/trace_writer.h"
#include "sample_trace.h"

namespace reveal::tests::trace_test {
namespace {

TEST(Trace, ReadsBackWhatWasWritten) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "n01.h5";
  TraceWriter writer(path, sample_header());
  FamilySpec resting = counter_family();
  resting.longest_rest = std::chrono::seconds(2);
  FamilySpec counted_in_turns = real_family();
  counted_in_turns.longest_rest = std::chrono::nanoseconds(0);
  const auto pages = writer.add_family(resting);
  const auto load = writer.add_family(counted_in_turns);
  writer.add_channel(pages, {.metric = "vm.pgfault", .role = "node"});
  writer.add_channel(pages, {.metric = "vm.pgmajfault", .role = "job", .born_ns = 5});
  writer.add_channel(load, {.metric = "cpu.share", .instance = "cpu0"});
  writer.set_snapshot({{"kernel.release", "6.1.0"}, {"thp", "madvise"}}, "<topology/>");
  const std::vector<Coverage> coverage = {{"cpu", Coverage::State::ok, ""},
                                          {"gpu", Coverage::State::absent, "no device"}};
  writer.set_coverage(coverage);
  writer.start();
  writer.append_clock({1'000, 2'000, 3});
  writer.append_event({42, "process 7", "process_begin", "train"});
  for (int tick = 0; tick < 250; ++tick) {
    const std::int64_t time = 1'000'000'000 + tick * 100'000'000LL;
    const std::int64_t values[] = {1000 + 10 * tick, tick < 200 ? 5 : kMissing};
    EXPECT_TRUE(writer.append_row(pages, time, values));
    const double share = 0.25 * tick;
    EXPECT_TRUE(writer.append_row(load, time + 300'000, std::span(&share, 1)));
    if (tick % 100 == 99) wait_until_flushed(writer, time);
  }
  writer.set_end_snapshot({{"kernel.release", "6.1.0"}, {"thp", "always"}});
  writer.close();
  EXPECT_EQ(writer.status().rows_lost, 0U);
  EXPECT_EQ(writer.status().flushed_until_ns, 1'000'000'000 + 249 * 100'000'000LL);
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".part"));

  const TraceReader reader(path);
  EXPECT_TRUE(reader.complete());
  EXPECT_EQ(reader.header().job_id, "4711");
  EXPECT_EQ(reader.header().node, "n01");
  EXPECT_EQ(reader.header().cluster, "");
  EXPECT_EQ(reader.header().run_key, "0123456789abcdef0123456789abcdef");
  EXPECT_EQ(reader.header().trace_id, "00112233445566778899aabbccddeeff");
  EXPECT_EQ(reader.header().interval, std::chrono::milliseconds(100));
  EXPECT_EQ(reader.header().tags, (std::vector<std::pair<std::string, std::string>>{{"model", "mlp"}}));
  ASSERT_EQ(reader.families().size(), 2U);
  const TraceReader::Family& cpu = reader.families()[0];
  const TraceReader::Family& vm = reader.families()[1];
  EXPECT_EQ(cpu.spec.path, "cpu/share");
  EXPECT_EQ(vm.spec.path, "memory/vmstat");
  EXPECT_EQ(vm.spec.kind, Kind::counter);
  EXPECT_EQ(vm.spec.unit, Unit::count);
  EXPECT_EQ(vm.spec.scope, Scope::node);
  EXPECT_EQ(vm.spec.subsystem, Subsystem::memory);
  EXPECT_EQ(vm.spec.source, "/proc/vmstat");
  EXPECT_EQ(vm.spec.period, std::chrono::milliseconds(100));
  EXPECT_EQ(vm.spec.longest_rest, std::chrono::nanoseconds(2'000'000'000));
  EXPECT_EQ(cpu.spec.longest_rest, std::chrono::nanoseconds(0)) << "stated, and no time";
  ASSERT_EQ(vm.channels.size(), 2U);
  EXPECT_EQ(vm.channels[1].metric, "vm.pgmajfault");
  EXPECT_EQ(vm.channels[1].role, "job");
  EXPECT_EQ(vm.channels[1].born_ns, 5);
  EXPECT_EQ(cpu.channels[0].instance, "cpu0");
  ASSERT_EQ(vm.time_ns.size(), 250U);
  EXPECT_EQ(vm.time_ns[249], 25'900'000'000);
  EXPECT_TRUE(std::ranges::equal(cpu.time_ns, vm.time_ns));

  const std::vector<double> increments = reader.read(vm);
  EXPECT_TRUE(std::isnan(increments[0]));
  for (std::size_t row = 1; row < 250; ++row) EXPECT_EQ(increments[row], 10.0);
  EXPECT_EQ(increments[250 + 1], 0.0);
  EXPECT_TRUE(std::isnan(increments[250 + 200]));
  const std::vector<std::int64_t> absolute = reader.read_absolute(vm);
  for (std::size_t row = 0; row < 250; ++row) EXPECT_EQ(absolute[row], 1000 + 10 * static_cast<std::int64_t>(row));
  EXPECT_EQ(absolute[250 + 199], 5);
  EXPECT_EQ(absolute[250 + 200], kMissing);
  const std::vector<double> shares = reader.read(cpu);
  for (std::size_t row = 0; row < 250; ++row) EXPECT_EQ(shares[row], 0.25 * static_cast<double>(row));

  ASSERT_EQ(reader.events().size(), 1U);
  EXPECT_EQ(reader.events()[0].code, "process_begin");
  ASSERT_EQ(reader.clocks().size(), 1U);
  EXPECT_EQ(reader.clocks()[0].utc_ns, 2'000);
  ASSERT_EQ(reader.coverage().size(), 2U);
  EXPECT_EQ(reader.coverage()[1].reason, "no device");
  EXPECT_EQ(reader.snapshot_begin()[1].second, "madvise");
  EXPECT_EQ(reader.snapshot_end(), (Snapshot{{"thp", "always"}}));
  EXPECT_EQ(reader.topology_xml(), "<topology/>");
}

TEST(Trace, LeavesOutClockPairsThatNoClockCanHave) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceHeader header = sample_header();
  header.begin_utc_ns = std::numeric_limits<std::int64_t>::max();
  {
    TraceWriter writer(path, header);
    writer.add_channel(writer.add_family(gauge_family()), {.metric = "level"});
    writer.start();
    constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
    for (const ClockPair& pair : {ClockPair{kLowest, 1, 0}, {1, -1, 0}, {1, header.begin_utc_ns, 0}, {5, 7, 3}})
      writer.append_clock(pair);
    writer.close();
  }
  const TraceReader reader(path);
  ASSERT_EQ(reader.clocks().size(), 1U);
  EXPECT_EQ(reader.clocks()[0].utc_ns, 7);
  EXPECT_EQ(reader.header().begin_utc_ns, 0);
}

/// read() and read_bases() take the reader's lock and the library's: in different orders they would wait for each
/// other.
TEST(Trace, IsReadByTwoThreadsWithOneReader) {
  constexpr std::int64_t kRows = 300;
  constexpr std::int64_t kPeriod = 10'000'000'000;
  constexpr int kTimes = 300;
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header(), {.waits = true});
  const auto id = writer.add_family(counter_family("memory/vmstat", std::chrono::nanoseconds(kPeriod)));
  writer.add_channel(id, {.metric = "pages"});
  writer.start();
  for (std::int64_t row = 1; row <= kRows; ++row) {
    const std::int64_t count = 3 * row;
    ASSERT_TRUE(writer.append_row(id, row * kPeriod, std::span(&count, 1)));
  }
  writer.close();
  const TraceReader reader(path);
  const TraceReader::Family& family = reader.families().at(0);
  const std::vector<double> increments(kRows - 1, 3.0);
  const TraceReader::Bases bases = reader.read_bases(family);
  ASSERT_GT(bases.chunks, 2U) << "the last two are kept: read() would not need the library again";
  ::alarm(60);  // ends the test where the threads wait for each other
  {
    const std::jthread other([&] {
      for (int i = 0; i < kTimes; ++i) EXPECT_EQ(reader.read_bases(family).values, bases.values);
    });
    for (int i = 0; i < kTimes; ++i) EXPECT_EQ(reader.read(family, 1, kRows - 1), increments);
  }
  ::alarm(0);
}

/// Few rows have values: the others take no time to compress.
std::int64_t value_at(std::size_t channel, std::size_t row) {
  const bool there = (row + 100) % 10'000 < 200 && row % 7 != channel % 7;
  return there ? static_cast<std::int64_t>(1000 * row + channel) : kMissing;
}

void write_wide_trace(const std::filesystem::path& path, std::size_t channels, std::size_t rows_per_chunk) {
  TraceFile trace(path, sample_header(), TraceFile::Form::closed);
  const std::size_t axis = trace.add_axis("100ms", rows_per_chunk);
  const std::size_t family = trace.add_family(gauge_family(), axis, 1, channels);
  trace.start();
  std::vector<ChannelKey> keys(channels);
  for (std::size_t c = 0; c < channels; ++c) keys[c].metric = "m" + std::to_string(c);
  trace.write_channels(family, 0, keys);
  std::size_t first = 0;
  for (const std::size_t rows : {rows_per_chunk, std::size_t{70}}) {
    std::vector<std::int64_t> values(channels * rows);
    std::vector<std::int64_t> times(rows);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_at(i / rows, first + i % rows);
    for (std::size_t row = 0; row < rows; ++row) times[row] = static_cast<std::int64_t>(first + row) * 100'000'000;
    trace.write_rows(family, channels, rows, values.data(), {});
    trace.write_times(axis, times);
    first += rows;
  }
  trace.close(true);
}

TEST(TraceReader, ReadsPiecesOfFamiliesOfAnyWidth) {
  const TemporaryDirectory directory;
  // Two columns of chunks are kept, one, none.
  for (const auto& [channels, width] : {std::pair<std::size_t, std::size_t>{3, 100}, {3, 200'000}, {3, 1'500'000}}) {
    const auto path = directory.path() / ("t" + std::to_string(width) + ".h5");
    write_wide_trace(path, channels, width);
    const TraceReader reader(path);
    const TraceReader::Family& family = reader.families().at(0);
    std::vector<double> values;
    for (const std::size_t first : {width - 90, width - 30, width + 20, width - 90, std::size_t{5}}) {
      constexpr std::size_t kRows = 50;
      reader.read(family, first, kRows, values);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::int64_t expected = value_at(i / kRows, first + i % kRows);
        ASSERT_TRUE(expected == kMissing ? std::isnan(values[i]) : values[i] == static_cast<double>(expected))
            << width << ": " << first << " " << i << " " << values[i];
      }
    }
  }
}

}  // namespace
}  // namespace reveal::tests::trace_test
