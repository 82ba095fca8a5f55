// The table of collectives that were kept one by one: written rows are read, also after a rewrite.
#include <H5Cpp.h>
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/rewrite.h"
#include "hdf5schema/trace_reader.h"
#include "hdf5schema/trace_writer.h"
#include "sample_trace.h"

namespace reveal::tests::collectives_test {
namespace {

constexpr std::int64_t kBegin = 5'000'000'000'000;
constexpr std::int64_t kTick = 100'000'000;

SampledCollective collective(std::int64_t number) {
  return {.rank = number % 2 == 0 ? "rank0" : "rank11",
          .function = "MPI_Reduce_scatter_block",
          .communicator = number % 3,
          .ranks = number % 2 == 0 ? 8 : 0,
          .id = number % 5 == 0 ? 4'000'000'000 : 0,
          .number = number,
          .begin_ns = kBegin + number * 31'000'001,
          .last = number % 7 == 0 ? 1 : 0};
}

std::vector<SampledCollective> collectives(std::int64_t last) {
  std::vector<SampledCollective> all;
  for (std::int64_t number = 1; number <= last; ++number) all.push_back(collective(number));
  return all;
}

/// `seconds` of a level, and a collective in each tick.
void record(TraceWriter& writer, int seconds) {
  const auto family = writer.add_family(gauge_family());
  writer.add_channel(family, {.metric = "level"});
  writer.start();
  for (int tick = 0; tick < 10 * seconds; ++tick) {
    const std::int64_t level = tick;
    writer.append_row(family, kBegin + tick * kTick, std::span(&level, 1));
    writer.append_collective(collective(tick + 1));
    if (tick % 100 == 99 && tick + 1 < 10 * seconds) wait_until_flushed(writer, kBegin + tick * kTick);
  }
}

TEST(Collectives, SurviveTheRewritingOfAClosedTraceAndRecovery) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header());
  record(writer, 45);
  writer.close();
  EXPECT_EQ(TraceReader(path).collectives(), collectives(450));
  EXPECT_EQ(TraceReader(path).table_size<SampledCollective>(), 450U);
  static_cast<void>(recover(path, directory.path() / "again.h5"));
  EXPECT_EQ(TraceReader(directory.path() / "again.h5").collectives(), collectives(450));
}

TEST(Collectives, ForWhichThereIsNoRoomAreCountedInAnEvent) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header());
  const auto family = writer.add_family(gauge_family());
  writer.add_channel(family, {.metric = "level"});
  writer.start();
  for (std::int64_t number = 1; number <= 10'000; ++number) writer.append_collective(collective(number));
  writer.close();
  const TraceReader reader(path);
  const std::vector<Event> events = reader.events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].code, "collectives_lost");
  EXPECT_EQ(events[0].text, std::to_string(10'000 - reader.collectives().size()));
}

TEST(Collectives, AreNoneInATraceOfBeforeThereWereAny) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header());
  record(writer, 5);
  writer.close();
  H5::H5File(path.string(), H5F_ACC_RDWR).unlink("collectives");
  const TraceReader reader(path);
  EXPECT_TRUE(reader.collectives().empty());
  EXPECT_EQ(reader.table_size<SampledCollective>(), 0U);
  EXPECT_TRUE(reader.damages().empty());
}

TEST(Collectives, WhoseTableIsNoneAreNotRead) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "t.h5";
  TraceWriter writer(path, sample_header());
  record(writer, 5);
  writer.close();
  {
    H5::H5File file(path.string(), H5F_ACC_RDWR);
    file.unlink("collectives");
    file.createDataSet("collectives", H5::PredType::NATIVE_INT64, H5::DataSpace());
  }
  const TraceReader reader(path);
  EXPECT_EQ(reader.table_size<SampledCollective>(), 0U);
  EXPECT_THROW(static_cast<void>(reader.collectives()), Error);
}

}  // namespace
}  // namespace reveal::tests::collectives_test
