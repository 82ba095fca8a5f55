#include "hdf5schema/trace_writer.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <vector>

#include "allocation_counter.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/layout.h"
#include "hdf5schema/trace_file.h"
#include "hdf5schema/trace_reader.h"
#include "sample_trace.h"

namespace reveal::tests::trace_writer_test {
namespace {

constexpr std::int64_t kTick = 100'000'000;
constexpr std::int64_t kBegin = 5'000'000'000'000;

const TraceReader::Family& family_of(const TraceReader& reader, std::string_view path) {
  for (const TraceReader::Family& family : reader.families()) {
    if (family.spec.path == path) return family;
  }
  throw Error("no family " + std::string(path));
}

TEST(TraceWriter, AppendsWithoutAllocating) {
  const TemporaryDirectory directory;
  TraceWriter writer(directory.path() / "t.h5", sample_header());
  const auto counters = writer.add_family(counter_family());
  const auto gauges = writer.add_family(gauge_family());
  for (int i = 0; i < 50; ++i) {
    writer.add_channel(counters, {.metric = "c" + std::to_string(i)});
    writer.add_channel(gauges, {.metric = "g" + std::to_string(i)});
  }
  writer.start();
  const std::vector<std::int64_t> values(50, 1);
  const Event event{kBegin, "clock", "clock_step", "back by 3 s"};
  const TrainingStep step{.rank = "rank0", .number = 1, .begin_ns = kBegin};
  const SampledCollective collective{.rank = "rank0", .function = "MPI_Allreduce", .number = 1, .begin_ns = kBegin};
  for (int tick = 0; tick < 1000; ++tick) {
    count_allocations(true);
    const bool kept = writer.append_row(counters, kBegin + tick * kTick, values) &&
                      writer.append_row(gauges, kBegin + tick * kTick, values);
    if (tick % 10 == 0) writer.append_event(event);
    writer.append_step(step);
    writer.append_collective(collective);
    writer.append_clock({kBegin, 1, 1});
    count_allocations(false);
    ASSERT_TRUE(kept);
    if (tick % 100 == 99) wait_until_flushed(writer, kBegin + tick * kTick);
  }
  EXPECT_EQ(allocations_counted(), 0U);
  writer.close();
  EXPECT_EQ(TraceReader(directory.path() / "t.h5").events().size(), 100U);
  EXPECT_EQ(TraceReader(directory.path() / "t.h5").steps().size(), 1000U);
}

TEST(TraceWriter, CountsFromTheValueBeforeWhereItIsKnown) {
  const TemporaryDirectory directory;
  TraceWriter writer(directory.path() / "t.h5", sample_header());
  const auto family = writer.add_family(counter_family());
  writer.add_channel(family, {.metric = "old"});
  writer.start();
  std::vector<std::int64_t> values{1000};
  const auto append = [&](int tick) { ASSERT_TRUE(writer.append_row(family, kBegin + tick * kTick, values)); };
  append(0);
  writer.add_channel(family, {.metric = "begun"}, 0);
  writer.add_channel(family, {.metric = "found"});
  values = {1001, 70, 800};
  append(1);
  values = {1001, 75, 801};
  append(2);
  writer.close();
  const TraceReader reader(directory.path() / "t.h5");
  const TraceReader::Family& stored = family_of(reader, counter_family().path);
  constexpr std::int64_t kNone = kMissing;
  EXPECT_EQ(reader.read_stored(stored), (std::vector<std::int64_t>{kNone, 1, 0, kNone, 70, 5, kNone, kNone, 1}));
  EXPECT_EQ(reader.read_absolute(stored), (std::vector<std::int64_t>{1000, 1001, 1001, 0, 70, 75, kNone, 800, 801}));
}

/// A row of chunks that begins later costs index space in the growing file, however little is in it.
TEST(TraceWriter, ExpectedChannelsThatComeLaterCostWhatTheyHold) {
  const TemporaryDirectory directory;
  std::uint64_t sizes[2] = {0, 0};
  for (const bool expected : {false, true}) {
    const std::filesystem::path path = directory.path() / (expected ? "expected.h5" : "surprise.h5");
    TraceWriter writer(path, sample_header());
    const auto family = writer.add_family(counter_family());
    for (int i = 0; i < 4; ++i) writer.add_channel(family, {.metric = "early" + std::to_string(i)});
    if (expected) writer.expect_channels(family, 80);
    writer.start();
    std::vector<std::int64_t> values(4, 1);
    for (int tick = 0; tick < 300; ++tick) {
      if (tick == 100) {
        for (int i = 0; i < 80; ++i) writer.add_channel(family, {.metric = "late" + std::to_string(i)});
        values.resize(84, 1);
      }
      ASSERT_TRUE(writer.append_row(family, kBegin + tick * kTick, values));
      if (tick % 100 == 99) wait_until_flushed(writer, kBegin + tick * kTick);
    }
    sizes[expected ? 1 : 0] = writer.status().bytes;
    writer.close();
    EXPECT_EQ(family_of(TraceReader(path), counter_family().path).channels.size(), 84U);
  }
  EXPECT_GT(sizes[0], sizes[1] + 200'000);
}

/// A trace of a day and a half, every ten seconds: narrow enough to be rewritten, in hundreds of chunks. Its indexes
/// grew with their square once.
TEST(TraceWriter, ALongNarrowTraceTakesWhatItsChunksTake) {
  constexpr std::size_t kChunks = 600;
  constexpr std::size_t kRows = 30;
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceFile file(path, sample_header(), TraceFile::Form::closed);
  const std::size_t axis = file.add_axis("10s", kRows);
  const std::size_t family = file.add_family(gauge_family(), axis, 1, 1);
  file.start();
  const ChannelKey key{.metric = "a"};
  file.write_channels(family, 0, {&key, 1});
  std::vector<std::int64_t> rows(kRows, 5);
  const ClockPair pair{kBegin, 1, 1};
  const EventRecord event = record_of({kBegin, "clock", "clock_step", "back by 3 s"});
  for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
    file.write_rows(family, 1, kRows, rows.data(), {});
    file.write_times(axis, rows);
    for (std::size_t row = 0; row < kRows; ++row) {
      file.write_clocks({&pair, 1});
      file.write_events({&event, 1});
    }
  }
  file.close(true);
  EXPECT_LT(std::filesystem::file_size(path), kChunks * 2000);
}

/// Chunks in which nothing changes are written without being encoded again.
TEST(TraceWriter, KeepsWhatStandsStillApartFromWhatMoves) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header());
  const auto id = writer.add_family(gauge_family());
  writer.add_channel(id, {.metric = "a"});
  writer.add_channel(id, {.metric = "b"});
  writer.start();
  std::vector<std::int64_t> expected;
  for (int tick = 0; tick < 900; ++tick) {
    // By chunk: still, still, b another, back, moving in one row, still, nothing measured, still, still.
    const int chunk = tick / 100;
    const std::int64_t b = chunk == 2 ? 9 : tick == 450 ? 8 : 7;
    const std::int64_t values[] = {chunk == 6 ? kMissing : 5, chunk == 6 ? kMissing : b};
    expected.push_back(values[1]);
    ASSERT_TRUE(writer.append_row(id, kBegin + tick * kTick, values));
    if (tick % 100 == 99) wait_until_flushed(writer, kBegin + tick * kTick);
  }
  const auto b_of = [](const std::filesystem::path& trace) {
    const TraceReader reader(trace);
    const std::vector<std::int64_t> stored = reader.read_stored(family_of(reader, "memory/meminfo"));
    return std::vector(stored.begin() + static_cast<std::ptrdiff_t>(stored.size() / 2), stored.end());
  };
  std::filesystem::copy_file(directory.path() / "t.h5.part", directory.path() / "cut.h5.part");
  EXPECT_EQ(b_of(directory.path() / "cut.h5.part"), expected);
  writer.close();
  EXPECT_EQ(b_of(path), expected);
}

/// The bits of a missing integer are those of -0.0.
TEST(TraceWriter, ARealChannelIsMissingBeforeItWasThere) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header());
  const auto id = writer.add_family(real_family());
  writer.add_channel(id, {.metric = "first"});
  writer.start();
  std::vector<double> values(1, 0.5);
  for (int tick = 0; tick < 100; ++tick) {
    if (tick == 27) {
      for (int i = 0; i < 20; ++i) {
        writer.add_channel(id, {.metric = "later" + std::to_string(i)});
        values.push_back(0.25);
      }
    }
    ASSERT_TRUE(writer.append_row(id, kBegin + tick * kTick, std::span<const double>(values)));
  }
  writer.close();
  const TraceReader reader(path);
  const std::vector<double> stored = reader.read(family_of(reader, real_family().path));
  for (std::size_t channel = 1; channel <= 20; ++channel) {
    for (std::size_t row = 0; row < 100; ++row) {
      const double value = stored[channel * 100 + row];
      if (row < 27)
        EXPECT_TRUE(std::isnan(value)) << channel << ' ' << row << ": " << value;
      else
        EXPECT_EQ(value, 0.25);
    }
  }
}

TEST(TraceWriter, TakesNewChannelsWhileItRecords) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header());
  const auto id = writer.add_family(counter_family());
  const auto empty = writer.add_family(gauge_family());
  writer.add_channel(id, {.metric = "first"});
  writer.start();
  // From 1 channel to 61: beyond the 16 that fit into a chunk.
  std::vector<std::int64_t> values(1, 1000);
  for (int tick = 0; tick < 350; ++tick) {
    if (tick == 50 || tick == 150 || tick == 250) {
      for (int i = 0; i < 20; ++i) {
        writer.add_channel(id, {.metric = "later", .instance = std::to_string(values.size()), .born_ns = tick});
        values.push_back(5'000);
      }
    }
    if (tick == 200) {
      EXPECT_EQ(writer.add_channel(empty, {.metric = "only"}), 0U);
    }
    if (tick == 300) writer.channel_died(id, 7, 12345);
    for (std::int64_t& value : values) value += 2;
    EXPECT_TRUE(writer.append_row(id, kBegin + tick * kTick, values));
    const std::int64_t level = tick;
    EXPECT_TRUE(writer.append_row(empty, kBegin + tick * kTick, std::span(&level, tick < 200 ? 0 : 1)));
    if (tick % 100 == 99) wait_until_flushed(writer, kBegin + tick * kTick);
  }
  writer.close();
  EXPECT_EQ(writer.status().rows_lost, 0U);
  EXPECT_EQ(writer.status().channels, 62U);

  const TraceReader reader(path);
  const TraceReader::Family& family = family_of(reader, "memory/vmstat");
  ASSERT_EQ(family.channels.size(), 61U);
  EXPECT_EQ(family.channels[60].instance, "60");
  EXPECT_EQ(family.channels[60].born_ns, 250);
  EXPECT_EQ(family.channels[7].died_ns, 12345);
  const std::vector<double> increments = reader.read(family);
  const std::vector<std::int64_t> absolute = reader.read_absolute(family);
  for (std::size_t channel = 0; channel < 61; ++channel) {
    const std::size_t first = channel == 0 ? 0 : 50 + 100 * ((channel - 1) / 20);
    for (std::size_t row = 0; row < 350; ++row) {
      const std::size_t at = channel * 350 + row;
      if (row <= first) {
        EXPECT_TRUE(std::isnan(increments[at])) << channel << " " << row;
      } else {
        EXPECT_EQ(increments[at], 2.0) << channel << " " << row;
        EXPECT_EQ(absolute[at], (channel == 0 ? 1000 : 5000) + 2 * static_cast<std::int64_t>(row - first + 1));
      }
    }
  }
  const std::vector<double> levels = reader.read(family_of(reader, "memory/meminfo"));
  EXPECT_TRUE(std::isnan(levels[199]));
  EXPECT_EQ(levels[200], 200.0);
}

TEST(TraceWriter, KeepsTheCountsOfMoreChannelsAndChunksThanAreReadAtOnce) {
  constexpr std::size_t kChannels = 3000;
  constexpr std::size_t kRows = 60;
  const auto count_of = [](std::size_t channel, std::size_t row) {
    return static_cast<std::int64_t>(1000 * channel + row * (channel % 7));
  };
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header());
  const auto id = writer.add_family(counter_family("memory/vmstat", std::chrono::seconds(10)));
  for (std::size_t i = 0; i < kChannels; ++i) writer.add_channel(id, {.metric = "c" + std::to_string(i)});
  writer.start();
  std::vector<std::int64_t> values(kChannels);
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t i = 0; i < kChannels; ++i) values[i] = count_of(i, row);
    const std::int64_t time = kBegin + static_cast<std::int64_t>(row) * 100 * kTick;
    EXPECT_TRUE(writer.append_row(id, time, values));
    wait_until_flushed(writer, time);
  }
  const auto check = [&](const std::filesystem::path& trace) {
    const TraceReader reader(trace);
    const TraceReader::Family& family = family_of(reader, "memory/vmstat");
    const std::vector<std::int64_t> absolute = reader.read_absolute(family);
    ASSERT_EQ(absolute.size(), kChannels * kRows);
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}, kChannels - 1}) {
      for (std::size_t row = 1; row < kRows; ++row) EXPECT_EQ(absolute[i * kRows + row], count_of(i, row)) << i;
    }
    const TraceReader::Bases all = reader.read_bases(family);
    const TraceReader::Bases last = reader.read_bases(family, all.chunks - 1, 1);
    EXPECT_EQ(last.first, all.chunks - 1);
    ASSERT_EQ(last.chunks, 1U);
    for (std::size_t i = 0; i < kChannels; ++i) EXPECT_EQ(last.values[i], all.values[(i + 1) * all.chunks - 1]) << i;
    EXPECT_EQ(reader.read_bases(family, all.chunks, 1).chunks, 0U);
  };
  // Two openings of one file in a process must agree on its lock: the writer's has none.
  const auto unclosed = directory.path() / "copy.h5.part";
  std::filesystem::copy_file(path.string() + ".part", unclosed);
  check(unclosed);
  writer.close();
  EXPECT_EQ(writer.status().rows_lost, 0U);
  check(path);
}

TEST(TraceWriter, KeepsSlowAndFastFamiliesOnAxesOfTheirOwn) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header());
  FamilySpec other_clock = gauge_family("gpu/memory");
  other_clock.clock = "gpu";
  const auto fast = writer.add_family(gauge_family());
  const auto second = writer.add_family(gauge_family("memory/numa", std::chrono::seconds(1)));
  const auto slow = writer.add_family(gauge_family("memory/hugepages", std::chrono::seconds(10)));
  const auto gpu = writer.add_family(other_clock);
  for (const auto id : {fast, second, slow, gpu}) writer.add_channel(id, {.metric = "m"});
  writer.start();
  for (std::int64_t tick = 0; tick < 301; ++tick) {
    const std::int64_t time = kBegin + tick * kTick;
    EXPECT_TRUE(writer.append_row(fast, time, std::span(&tick, 1)));
    if (tick % 10 == 0) {
      EXPECT_TRUE(writer.append_row(second, time, std::span(&tick, 1)));
    }
    if (tick % 100 == 0) {
      EXPECT_TRUE(writer.append_row(slow, time, std::span(&tick, 1)));
    }
    if (tick % 3 == 0) {
      EXPECT_TRUE(writer.append_row(gpu, time - 40'000'000, std::span(&tick, 1)));
    }
    if (tick % 100 == 99) wait_until_flushed(writer, time);
  }
  writer.close();
  const TraceReader reader(path);
  EXPECT_EQ(family_of(reader, "memory/meminfo").time_ns.size(), 301U);
  EXPECT_EQ(family_of(reader, "memory/numa").time_ns.size(), 31U);
  const auto rare = family_of(reader, "memory/hugepages").time_ns;
  EXPECT_EQ(std::vector<std::int64_t>(rare.begin(), rare.end()),
            (std::vector<std::int64_t>{kBegin, kBegin + 100 * kTick, kBegin + 200 * kTick, kBegin + 300 * kTick}));
  EXPECT_EQ(family_of(reader, "gpu/memory").time_ns[1], kBegin + 3 * kTick - 40'000'000);
  EXPECT_EQ(reader.read(family_of(reader, "memory/numa"))[30], 300.0);
}

TEST(TraceWriter, LeavesRowsMissingThatAFamilyDidNotDeliver) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header());
  const auto whole = writer.add_family(gauge_family());
  const auto holes = writer.add_family(counter_family());
  writer.add_channel(whole, {.metric = "a"});
  writer.add_channel(holes, {.metric = "b"});
  writer.start();
  for (std::int64_t tick = 0; tick < 10; ++tick) {
    EXPECT_TRUE(writer.append_row(whole, kBegin + tick * kTick, std::span(&tick, 1)));
    const std::int64_t count = 10 * tick;
    if (tick != 4) {
      EXPECT_TRUE(writer.append_row(holes, kBegin + tick * kTick, std::span(&count, 1)));
    }
  }
  const std::int64_t value = 1;
  EXPECT_FALSE(writer.append_row(whole, kBegin, std::span(&value, 1)));  // a time that was already
  writer.close();
  EXPECT_EQ(writer.status().rows_lost, 1U);
  const TraceReader reader(path);
  const std::vector<double> increments = reader.read(family_of(reader, "memory/vmstat"));
  EXPECT_EQ(increments[3], 10.0);
  EXPECT_TRUE(std::isnan(increments[4]));
  EXPECT_EQ(increments[5], 20.0);
}

TEST(TraceWriter, WaitsForTheDiskWhereARecordingIsReplayed) {
  const TemporaryDirectory directory;
  TraceWriter writer(directory.path() / "t.h5", sample_header(), {.waits = true});
  const auto id = writer.add_family(gauge_family());
  writer.add_channel(id, {.metric = "a"});
  writer.start();
  for (std::int64_t tick = 0; tick < 5000; ++tick) {
    ASSERT_TRUE(writer.append_row(id, kBegin + tick * kTick, std::span(&tick, 1))) << tick;
  }
  writer.close();
  EXPECT_EQ(TraceReader(directory.path() / "t.h5").families()[0].time_ns.size(), 5000U);
}

TEST(TraceWriter, CountsRowsWhenItIsTooSlow) {
  const TemporaryDirectory directory;
  TraceWriter writer(directory.path() / "t.h5", sample_header(), {.flush_jitter = std::chrono::hours(1)});
  const auto id = writer.add_family(gauge_family());
  writer.add_channel(id, {.metric = "a"});
  writer.start();
  std::uint64_t lost = 0;
  for (std::int64_t tick = 0; tick < 250; ++tick)
    lost += writer.append_row(id, kBegin + tick * kTick, std::span(&tick, 1)) ? 0 : 1;
  EXPECT_EQ(lost, 50U);  // two buffers of 100 rows; the third 50 do not fit
  writer.close();
  EXPECT_EQ(writer.status().rows_lost, 50U);
  const TraceReader reader(directory.path() / "t.h5");
  EXPECT_EQ(reader.families()[0].time_ns.size(), 200U);
  ASSERT_EQ(reader.events().size(), 1U);
  EXPECT_EQ(reader.events()[0].code, "rows_lost");
}

TEST(TraceWriter, CountsEventsThatAreTooManyBetweenTwoFlushes) {
  constexpr std::int64_t kKept = 1024;
  const TemporaryDirectory directory;
  TraceWriter writer(directory.path() / "t.h5", sample_header());
  writer.add_channel(writer.add_family(gauge_family()), {.metric = "a"});
  writer.start();
  for (std::int64_t i = 0; i < kKept + 3; ++i) writer.append_event({kBegin + i, "clock", "clock_step", "back by 3 s"});
  writer.close();
  const std::vector<Event> events = TraceReader(directory.path() / "t.h5").events();
  ASSERT_EQ(std::ssize(events), kKept + 1);
  EXPECT_EQ(events[kKept - 1].time_ns, kBegin + kKept - 1);
  EXPECT_EQ(events.back().code, "events_lost");
  EXPECT_EQ(events.back().text, "3 events between two flushes");
  EXPECT_EQ(events.back().time_ns, kBegin);
}

TEST(TraceWriter, OverwritesNothing) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  for (const auto& taken : {path, directory.path() / "t.h5.part"}) {
    std::ofstream(taken) << "somebody's";
    EXPECT_THROW(TraceWriter(path, sample_header()), Error) << taken;
    std::filesystem::remove(taken);
  }
  TraceWriter writer(path, sample_header());
  writer.add_family(gauge_family());
  writer.start();
  std::ofstream(path) << "somebody's";
  EXPECT_THROW(writer.close(), Error);
  EXPECT_EQ(std::filesystem::file_size(path), 10U);
  EXPECT_TRUE(std::filesystem::exists(path.string() + ".part"));
}

TEST(TraceWriter, SaysWhyItCannotCreateTheFile) {
  try {
    const TraceWriter writer("/nowhere/t.h5", sample_header());
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "/nowhere/t.h5.part: No such file or directory");
  }
}

TEST(TraceWriter, StaysBelowItsLimitAndWhole) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header(), {.max_bytes = 200'000});
  const auto id = writer.add_family(counter_family());
  for (int i = 0; i < 20; ++i) writer.add_channel(id, {.metric = "m" + std::to_string(i)});
  writer.start();
  std::uint32_t random = 1;
  std::vector<std::int64_t> values(20, 0);
  for (int tick = 0; tick < 5'000; ++tick) {
    for (std::int64_t& value : values) value += (random = random * 1664525U + 1013904223U) >> 4;
    writer.append_row(id, kBegin + tick * kTick, values);
    if (tick % 100 == 99) wait_until_flushed(writer, kBegin + tick * kTick);
  }
  EXPECT_EQ(writer.status().failure, "the trace reached its limit of 200000 bytes");
  EXPECT_EQ(writer.status().writing, TraceWriter::Writing::is_over);
  EXPECT_GT(writer.status().rows_lost, 1'000U);
  writer.close();
  EXPECT_LE(std::filesystem::file_size(path), 200'000U);
  const TraceReader reader(path);
  EXPECT_TRUE(reader.complete());
  EXPECT_GT(reader.families()[0].time_ns.size(), 100U);
  EXPECT_EQ(reader.events().at(0).code, "rows_lost");
}

TEST(TraceWriter, EndsWholeWhereItsFileHoldsNoMoreFlushes) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header(), {.max_flushes = 5});
  const auto id = writer.add_family(counter_family());
  writer.add_channel(id, {.metric = "m"});
  writer.start();
  for (int tick = 0; tick < 1'000; ++tick) {
    writer.append_row(id, kBegin + tick * kTick, std::vector<std::int64_t>{tick});
    if (tick % 100 == 99) wait_until_flushed(writer, kBegin + tick * kTick);
  }
  EXPECT_TRUE(writer.status().failure.starts_with("a trace ends after 30 days")) << writer.status().failure;
  EXPECT_EQ(writer.status().writing, TraceWriter::Writing::is_over);
  EXPECT_GT(writer.status().rows_lost, 0U);
  writer.close();
  const TraceReader reader(path);
  EXPECT_TRUE(reader.complete());
  EXPECT_EQ(reader.families()[0].time_ns.size(), 400U);
  EXPECT_EQ(reader.events().at(0).code, "rows_lost");
}

TEST(TraceWriter, SurvivesAFullDisk) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to mount a small tmpfs";
  const TemporaryDirectory directory;
  if (::mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=2m") != 0)
    GTEST_SKIP() << "this root may not mount a tmpfs";
  const auto path = directory.path() / "t.h5";
  {
    TraceWriter writer(path, sample_header());
    const auto id = writer.add_family(counter_family());
    for (int i = 0; i < 100; ++i) writer.add_channel(id, {.metric = "m" + std::to_string(i)});
    writer.start();
    std::uint32_t random = 1;
    std::vector<std::int64_t> values(100, 0);
    for (int tick = 0; tick < 20'000 && writer.status().failure.empty(); ++tick) {
      for (std::int64_t& value : values) value += (random = random * 1664525U + 1013904223U) >> 4;
      writer.append_row(id, kBegin + tick * kTick, values);
      if (tick % 100 == 99) wait_until_flushed(writer, kBegin + tick * kTick);
    }
    EXPECT_EQ(writer.status().failure, "No space left on device");
    try {
      writer.close();
      ADD_FAILURE() << "a trace that lost rows must not look complete";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("No space left on device"), std::string::npos) << error.what();
    }
    const TraceReader reader(path.string() + ".part");
    EXPECT_FALSE(reader.complete());
    EXPECT_GT(reader.families()[0].time_ns.size(), 300U);
    EXPECT_EQ(reader.read(reader.families()[0]).size(), 100 * reader.families()[0].time_ns.size());
  }
  ::umount(directory.path().c_str());
}

TEST(TraceWriter, GoesOnWhenAFullDiskHasSpaceAgain) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to mount a small tmpfs";
  const TemporaryDirectory directory;
  if (::mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=8m") != 0)
    GTEST_SKIP() << "this root may not mount a tmpfs";
  const auto ballast = directory.path() / "ballast";
  {
    TraceWriter writer(directory.path() / "t.h5", sample_header());
    const auto id = writer.add_family(counter_family());
    for (int i = 0; i < 100; ++i) writer.add_channel(id, {.metric = "m" + std::to_string(i)});
    writer.start();
    std::uint32_t random = 1;
    std::vector<std::int64_t> values(100, 0);
    std::int64_t tick = 0;
    const auto append = [&] {
      ++tick;
      for (std::int64_t& value : values) value += (random = random * 1664525U + 1013904223U) >> 4;
      values[0] = 1000 * tick;
      writer.append_row(id, kBegin + tick * kTick, values);
    };
    for (int row = 0; row < 100; ++row) append();
    wait_until_flushed(writer, kBegin + tick * kTick);
    EXPECT_EQ(writer.status().writing, TraceWriter::Writing::goes_on);
    {
      const std::vector<char> block(1 << 20, 'x');
      std::ofstream file(ballast, std::ios::binary);
      while (file.write(block.data(), static_cast<std::streamsize>(block.size())) && file.flush()) continue;
    }
    while (tick < 5'000 && writer.status().failure.empty()) {
      for (int row = 0; row < 100; ++row) append();
      wait_until_flushed(writer, kBegin + tick * kTick);
    }
    EXPECT_EQ(writer.status().writing, TraceWriter::Writing::fails_now);
    std::filesystem::remove(ballast);
    const std::int64_t before_gap = writer.status().flushed_until_ns;
    const std::int64_t lost_at = kBegin + tick * kTick;
    while (writer.status().flushed_until_ns == before_gap) append();
    EXPECT_EQ(writer.status().writing, TraceWriter::Writing::goes_on);
    EXPECT_THROW(writer.close(), Error) << "a trace that lost rows must not look complete";
    const TraceReader reader(directory.path() / "t.h5.part");
    const TraceReader::Family& family = reader.families()[0];
    const std::vector<std::int64_t> counts = reader.read_absolute(family);
    const std::size_t last = family.time_ns.size() - 1;  // a hundred were flushed before the gap
    EXPECT_GT(family.time_ns[last], lost_at);
    EXPECT_EQ(counts[last], (family.time_ns[last] - kBegin) / kTick * 1000) << "the increase covers the gap";
    EXPECT_GT(writer.status().rows_lost, 0U);
  }
  ::umount(directory.path().c_str());
}

}  // namespace
}  // namespace reveal::tests::trace_writer_test
