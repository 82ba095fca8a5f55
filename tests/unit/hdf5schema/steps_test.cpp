// The table of training steps: written steps are read, also after a crash or a rewrite.
#include <H5Cpp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <vector>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/record_types.h"
#include "hdf5schema/rewrite.h"
#include "hdf5schema/row_tables.h"
#include "hdf5schema/trace_reader.h"
#include "hdf5schema/trace_writer.h"
#include "sample_trace.h"

namespace reveal::tests::steps_test {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kBegin = 5'000'000'000'000;
constexpr std::int64_t kTick = 100'000'000;

TrainingStep step(std::int64_t number) {
  return {.rank = number % 2 == 0 ? "rank0" : "rank11",
          .number = number,
          .begin_ns = kBegin + number * 31'000'001,
          .duration_ns = 31'000'001,
          .waiting_ns = number % 3 == 0 ? kMissing : number,
          .bytes = kMissing,
          .gc_ns = number % 4 == 0 ? 5 * number : 0};
}

std::vector<TrainingStep> steps(std::int64_t first, std::int64_t last) {
  std::vector<TrainingStep> all;
  for (std::int64_t number = first; number <= last; ++number) all.push_back(step(number));
  return all;
}

/// `seconds` of a level, and a step in each tick.
void record(TraceWriter& writer, int seconds) {
  const auto family = writer.add_family(gauge_family());
  writer.add_channel(family, {.metric = "level"});
  writer.start();
  for (int tick = 0; tick < 10 * seconds; ++tick) {
    const std::int64_t level = tick;
    writer.append_row(family, kBegin + tick * kTick, std::span(&level, 1));
    writer.append_step(step(tick + 1));
    if (tick % 100 == 99 && tick + 1 < 10 * seconds) wait_until_flushed(writer, kBegin + tick * kTick);
  }
}

TEST(Steps, AreReadAsTheyWereWritten) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header());
  record(writer, 5);
  writer.close();
  EXPECT_EQ(TraceReader(path).steps(), steps(1, 50));
}

TEST(Steps, SurviveTheRewritingOfAClosedTraceAndRecovery) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header());
  record(writer, 45);
  writer.close();
  EXPECT_EQ(TraceReader(path).steps(), steps(1, 450));
  static_cast<void>(recover(path, directory.path() / "again.h5"));
  EXPECT_EQ(TraceReader(directory.path() / "again.h5").steps(), steps(1, 450));
}

TEST(Steps, ThatWereFlushedSurviveTheCollector) {
  const TemporaryDirectory directory;
  const pid_t collector = ::fork();
  if (collector == 0) {
    TraceWriter writer(directory.path() / "t.h5", sample_header());
    record(writer, 25);
    ::_exit(0);  // as if it was killed
  }
  ASSERT_EQ(::waitpid(collector, nullptr, 0), collector);
  const std::vector<TrainingStep> flushed = TraceReader(directory.path() / "t.h5.part").steps();
  EXPECT_GE(flushed.size(), 100U);
  EXPECT_EQ(flushed, steps(1, static_cast<std::int64_t>(flushed.size())));
}

TEST(Steps, OfTheLastMinutesAreKeptWhereTheRowsAre) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header(), {.retention = {.form = Retention::Form::rolling, .keep = 1min}});
  record(writer, 200);
  writer.close();
  const std::vector<TrainingStep> kept = TraceReader(path).steps();
  ASSERT_FALSE(kept.empty());
  EXPECT_GE(kept.size(), 600U);
  EXPECT_LT(kept.size(), 2000U);
  EXPECT_EQ(kept, steps(2001 - static_cast<std::int64_t>(kept.size()), 2000));
}

TEST(Steps, AreNotInASummary) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header(), {.retention = {.form = Retention::Form::summary}});
  record(writer, 130);
  writer.close();
  EXPECT_TRUE(TraceReader(path).steps().empty());
}

TEST(Steps, ForWhichThereIsNoRoomAreCountedInAnEvent) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header());
  const auto family = writer.add_family(gauge_family());
  writer.add_channel(family, {.metric = "level"});
  writer.start();
  for (std::int64_t number = 1; number <= 10'000; ++number) writer.append_step(step(number));
  writer.close();
  const TraceReader reader(path);
  const std::vector<Event> events = reader.events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].code, "steps_lost");
  EXPECT_EQ(events[0].text, std::to_string(10'000 - reader.steps().size()));
  EXPECT_EQ(reader.steps(), steps(1, static_cast<std::int64_t>(reader.steps().size())));
}

TEST(Steps, AreNoneInATraceOfBeforeThereWereAny) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header());
  record(writer, 5);
  writer.close();
  H5::H5File(path.string(), H5F_ACC_RDWR).unlink("steps");
  const TraceReader reader(path);
  EXPECT_TRUE(reader.steps().empty());
  EXPECT_TRUE(reader.damages().empty());
  EXPECT_EQ(reader.families().size(), 1U);
}

/// The table as versions before its last column wrote it.
void write_without_gc(const std::filesystem::path& path, std::int64_t count) {
  constexpr std::size_t kWidth = RowRecord<TrainingStep>::kWidth - sizeof(std::int64_t);
  H5::H5File file(path.string(), H5F_ACC_RDWR);
  H5::CompType type(kWidth);
  const H5::CompType now = row_type<TrainingStep>();
  for (unsigned i = 0; i + 1 < static_cast<unsigned>(now.getNmembers()); ++i) {
    type.insertMember(now.getMemberName(i), now.getMemberOffset(i), now.getMemberDataType(i));
  }
  std::vector<char> rows;
  for (const TrainingStep& each : steps(1, count)) {
    const RowRecord<TrainingStep> row = row_record(each);
    rows.insert(rows.end(), std::begin(row.bytes), std::begin(row.bytes) + kWidth);
  }
  file.unlink("steps");
  const auto length = static_cast<hsize_t>(count);
  file.createDataSet("steps", type, H5::DataSpace(1, &length)).write(rows.data(), type);
}

TEST(Steps, OfEarlierVersionsHaveNoTimeInTheGarbageCollector) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header());
  record(writer, 5);
  writer.close();
  write_without_gc(path, 20);
  std::vector<TrainingStep> expected = steps(1, 20);
  for (TrainingStep& each : expected) each.gc_ns = kMissing;
  EXPECT_EQ(TraceReader(path).steps(), expected);
}

TEST(Steps, AreReadPieceByPieceAndCountedBefore) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header());
  record(writer, 45);
  writer.close();
  const TraceReader reader(path);
  EXPECT_EQ(reader.table_size<TrainingStep>(), 450U);
  std::vector<TrainingStep> all;
  std::size_t longest = 0;
  reader.read_table<TrainingStep>([&](std::span<const TrainingStep> piece) {
    longest = std::max(longest, piece.size());
    all.insert(all.end(), piece.begin(), piece.end());
  });
  EXPECT_EQ(all, steps(1, 450));
  EXPECT_LE(longest, 8192U);
}

TEST(Steps, WhoseTableIsNoneAreNotCounted) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header());
  record(writer, 5);
  writer.close();
  {
    H5::H5File file(path.string(), H5F_ACC_RDWR);
    file.unlink("steps");
    file.createDataSet("steps", H5::PredType::NATIVE_INT64, H5::DataSpace());
  }
  const TraceReader reader(path);
  EXPECT_EQ(reader.table_size<TrainingStep>(), 0U);
  EXPECT_THROW(static_cast<void>(reader.steps()), Error);
}

}  // namespace
}  // namespace reveal::tests::steps_test
