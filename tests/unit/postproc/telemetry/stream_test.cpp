#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "hdf5schema/joined_trace.h"
#include "postproc/analysis/node_analysis.h"
#include "postproc/telemetry/trace_stream.h"
#include "tests/unit/hdf5schema/sample_trace.h"

namespace reveal::tests::stream_test {
namespace {

/// 6,000 ticks of a fast counter, a fast level and two slow families, with missing values and missing ticks.
void write_rough_trace(const std::filesystem::path& path, std::int64_t interval_ns) {
  TraceHeader header = sample_header();
  header.interval = std::chrono::nanoseconds(interval_ns);
  TraceWriter writer(path, header);
  const auto spec = [interval_ns](const char* family, Kind kind, std::int64_t steps) {
    FamilySpec made = counter_family();
    made.path = family;
    made.kind = kind;
    made.period = std::chrono::nanoseconds(steps * interval_ns);
    return made;
  };
  const std::vector<std::pair<TraceWriter::FamilyId, std::int64_t>> families{
      {writer.add_family(spec("cpu/fast", Kind::counter, 1)), 1},
      {writer.add_family(spec("cpu/levels", Kind::gauge, 1)), 1},
      {writer.add_family(spec("cpu/slow", Kind::counter, 50)), 50},
      {writer.add_family(spec("cpu/slow_levels", Kind::gauge, 100)), 100}};
  for (const auto& [id, steps] : families) {
    for (const char* metric : {"a", "b", "late"}) writer.add_channel(id, {.metric = metric});
  }
  writer.start();
  std::mt19937 random(3);
  std::vector<std::int64_t> values(3, 0);
  const std::size_t rows_per_chunk = 10'000'000'000 / static_cast<std::size_t>(interval_ns);
  std::size_t rows = 0;
  for (std::int64_t tick = 0; tick < 6000; ++tick) {
    for (std::int64_t& value : values) value += static_cast<std::int64_t>(random() % 100);
    const bool gap = (tick > 700 && tick < 712) || (tick > 2000 && tick < 2090);
    if (gap) continue;
    std::vector<std::int64_t> row = values;
    if (random() % 10 == 0) row[0] = kMissing;
    if (tick > 3000 && tick < 3000 + 60) row[1] = kMissing;
    if (tick < 4000) row[2] = kMissing;
    const std::int64_t time = interval_ns + tick * interval_ns + static_cast<std::int64_t>(random() % 1000);
    for (const auto& [id, steps] : families) {
      if (tick % steps == 0) writer.append_row(id, time, row);
    }
    if (++rows % rows_per_chunk == 0) wait_until_flushed(writer, time);
  }
  writer.close();
}

/// The parameter: milliseconds between ticks, of which those below 100 share a sample.
class TraceInPieces : public testing::TestWithParam<std::int64_t> {};

TEST_P(TraceInPieces, HasTheSameValuesAsAtOnce) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "n01.h5";
  write_rough_trace(path, GetParam() * 1'000'000);
  const Telemetry whole = load_trace(path).telemetry;
  ASSERT_GT(whole.samples, GetParam() == 100 ? 5900U : 1180U);
  std::size_t missing = 0;
  for (const double value : whole.values) missing += std::isnan(value) ? 1 : 0;
  ASSERT_GT(missing, whole.samples / 2);
  for (const std::size_t count : {7U, 100U, 1999U}) {
    TraceStream stream(path);
    ASSERT_EQ(stream.samples(), whole.samples);
    for (std::size_t begin = 0; begin < whole.samples; begin += count) {
      const Telemetry piece = stream.read(begin, std::min<std::size_t>(count, whole.samples - begin));
      ASSERT_EQ(piece.channels.size(), whole.channels.size());
      for (std::size_t c = 0; c < whole.channels.size(); ++c) {
        for (std::size_t t = 0; t < piece.samples; ++t) {
          const double expected = whole.series(c)[begin + t];
          const double got = piece.series(c)[t];
          ASSERT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected)))
              << whole.channels[c].family << " " << whole.channels[c].name() << " at " << begin + t << " in pieces of "
              << count << ": " << got << ", not " << expected;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Trace, TraceInPieces, testing::Values(100, 20));

/// 100 rows of a counter, and a training step in each of the first `steps`.
void write_steps(const std::filesystem::path& path, std::int64_t steps) {
  TraceWriter writer(path, sample_header());
  const auto counters = writer.add_family(counter_family());
  writer.add_channel(counters, {.metric = "steady"});
  writer.start();
  for (std::int64_t tick = 1; tick <= 100; ++tick) writer.append_row(counters, tick * 100'000'000, std::span(&tick, 1));
  for (std::int64_t step = 1; step <= steps; ++step) {
    writer.append_step({.rank = "rank" + std::to_string(step % 2), .number = step, .begin_ns = step * 1'000'000});
  }
  writer.close();
}

TEST(TrainingSteps, AreReadWhenTheyAreAskedFor) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "n01.h5";
  write_steps(path, 300);
  TraceStream stream(path);
  EXPECT_EQ(stream.table_size<TrainingStep>(), 300U);
  EXPECT_TRUE(stream.trace().steps.empty());
  stream.read_tables();
  ASSERT_EQ(stream.trace().steps.size(), 300U);
  EXPECT_EQ(stream.trace().steps[299].number, 300);
  EXPECT_EQ(stream.trace().steps[299].rank, "rank0");
  EXPECT_EQ(load_trace(path).steps, stream.trace().steps);
}

TEST(TrainingSteps, AreInThePlanOfMemory) {
  const TemporaryDirectory directory;
  const auto without = directory.path() / "n01.h5";
  const auto with = directory.path() / "n02.h5";
  write_steps(without, 0);
  write_steps(with, 5000);
  for (const bool in_one_piece : {true, false}) {
    EXPECT_GE(memory_needed(TraceStream(with), in_one_piece),
              memory_needed(TraceStream(without), in_one_piece) + 5000 * sizeof(TrainingStep));
  }
}

/// A recording of the last minute, killed while its second segment is written.
void write_cut_trace(const std::filesystem::path& to) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header(),
                     {.retention = {.form = Retention::Form::rolling, .keep = std::chrono::minutes(1)}});
  const auto counters = writer.add_family(counter_family());
  writer.add_channel(counters, {.metric = "steady"});
  writer.start();
  for (std::int64_t tick = 0; tick < 900; ++tick) {
    const std::int64_t time = (tick + 1) * 100'000'000;
    const std::int64_t value = 7 * tick;
    writer.append_row(counters, time, std::span(&value, 1));
    if (tick == 5 || tick == 800) writer.append_event({time, "test", "mark", std::to_string(tick)});
    if (tick % 100 == 99) wait_until_flushed(writer, time - 100'000'000);
  }
  std::filesystem::copy_file(path.string() + ".part", to.string() + ".part");
  std::filesystem::copy_file(earlier_segment(path), earlier_segment(to));
}

TEST(CutTrace, IsReadWithTheSegmentBeforeIt) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "n01.h5";
  write_cut_trace(path);
  const NodeTrace trace = load_trace(path.string() + ".part");
  EXPECT_FALSE(trace.complete);
  EXPECT_TRUE(trace.lost.empty());
  ASSERT_GT(trace.telemetry.samples, 700U) << "the last segment alone has fewer than 300";
  const auto series = trace.telemetry.series(0);
  for (std::size_t t = 1; t < series.size(); ++t) ASSERT_EQ(series[t], 7.0) << t;
  ASSERT_FALSE(trace.events.empty());
  EXPECT_EQ(trace.events.front().text, "5");
  TraceStream stream(path.string() + ".part");
  const Telemetry piece = stream.read(550, 100);  // across the cut
  for (std::size_t t = 0; t < piece.samples; ++t) ASSERT_EQ(piece.series(0)[t], 7.0) << t;
}

TEST(CutTrace, NamesASegmentThatDoesNotFit) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "n01.h5";
  write_cut_trace(path);
  std::filesystem::resize_file(earlier_segment(path), 3000);
  const NodeTrace trace = load_trace(path.string() + ".part");
  ASSERT_EQ(trace.lost.size(), 1U);
  EXPECT_EQ(trace.lost[0].name, "earlier segment");
  EXPECT_EQ(trace.lost[0].holds, LostPart::Holds::evidence);
}

}  // namespace
}  // namespace reveal::tests::stream_test
