#include "postproc/telemetry/telemetry_parquet.h"

#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "postproc/telemetry/telemetry_table.h"
#include "tests/unit/hdf5schema/sample_trace.h"

namespace reveal::tests::telemetry_parquet_test {
namespace {

constexpr std::int64_t kTick = 100'000'000;
constexpr std::int64_t kBegin = 1'700'000'000'000'000'000;  // UTC of monotonic 0: 2023-11-14 22:13:20

ListedTrace write_node(const TemporaryDirectory& directory, const std::string& node, const std::string& metric) {
  const std::filesystem::path path = directory.path() / (node + ".h5");
  TraceHeader header = sample_header();
  header.node = node;
  TraceWriter writer(path, header);
  const auto levels = writer.add_family(gauge_family());
  const auto counts = writer.add_family(counter_family());
  writer.add_channel(levels, {.metric = metric});
  writer.add_channel(counts, {.metric = "vmstat.pgfault"});
  writer.start();
  writer.append_clock({0, kBegin, 1000});
  for (std::int64_t tick = 0; tick <= 3; ++tick) {
    writer.append_row(levels, tick * kTick, {&tick, 1});
    writer.append_row(counts, tick * kTick, {&tick, 1});
  }
  writer.close();
  return {.path = path, .node = node};
}

struct ReadRow {
  std::string node;
  std::int64_t utc_ns;
  std::vector<double> values;  // kAbsent where the node has no such column
};
constexpr double kAbsent = -1;

std::vector<ReadRow> rows_of(TelemetryTable& table) {
  std::vector<ReadRow> result;
  table.read([&](const TelemetryTable::Rows& rows) {
    for (std::size_t row = 0; row < rows.count(); ++row) {
      ReadRow read{rows.node, rows.utc_ns(row), {}};
      for (std::size_t column = 0; column < table.columns().size(); ++column) {
        const auto values = rows.values(column);
        read.values.push_back(values.empty() ? kAbsent : values[row]);
      }
      result.push_back(read);
    }
  });
  return result;
}

TEST(TelemetryTable, DescribesEachColumn) {
  const TemporaryDirectory directory;
  const TelemetryTable table({write_node(directory, "n01", "mem.dirty")}, {"mem.dirty", "vmstat.pgfault"});
  ASSERT_EQ(table.columns().size(), 2U);
  EXPECT_EQ(table.columns()[0].name, "mem.dirty [bytes]");
  EXPECT_EQ(table.columns()[0].unit, "bytes");
  EXPECT_EQ(table.columns()[0].description, "Memory by use (/proc/meminfo); gauge");
  EXPECT_EQ(table.columns()[1].name, "vmstat.pgfault [count per 0.1 s]");
  EXPECT_EQ(table.columns()[1].description,
            "Kernel memory counters (/proc/vmstat); counter, increase until the next row");
}

TEST(TelemetryTable, HasEmptyColumnsForChannelsThatANodeLacks) {
  const TemporaryDirectory directory;
  TelemetryTable table({write_node(directory, "n01", "mem.dirty"), write_node(directory, "n02", "mem.mapped")},
                       {"mem.dirty", "mem.mapped"});
  const std::vector<ReadRow> rows = rows_of(table);
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(rows[0].node, "n01");
  EXPECT_EQ(rows[1].utc_ns, kBegin + kTick);
  EXPECT_EQ(rows[1].values, (std::vector<double>{2, kAbsent}));
  EXPECT_EQ(rows[5].node, "n02");
  EXPECT_EQ(rows[5].values, (std::vector<double>{kAbsent, 3}));
}

TEST(TelemetryTable, HasNamesThatEveryProgramCanPrint) {
  const TemporaryDirectory directory;
  TelemetryTable table({write_node(directory, "n\x1b[31m\xFF", "mem.\xC3\x28\n")}, {"mem.*"});
  ASSERT_EQ(table.columns().size(), 1U);
  EXPECT_EQ(table.columns()[0].name, "mem.\xEF\xBF\xBD(  [bytes]");
  EXPECT_EQ(rows_of(table).at(0).node, "n\xEF\xBF\xBD");
}

TEST(TelemetryParquet, IsCompleteForOneAndForSeveralNodes) {
  const TemporaryDirectory directory;
  const ListedTrace first = write_node(directory, "n01", "mem.dirty");
  for (const std::vector<ListedTrace>& traces :
       {std::vector{first}, {first, write_node(directory, "n02", "mem.mapped")}}) {
    std::string file;
    EXPECT_TRUE(write_parquet(traces, {}, [&](std::string_view more) { file += more; }).empty());
    EXPECT_TRUE(file.starts_with("PAR1") && file.ends_with("PAR1"));
    EXPECT_NE(file.find("reveal.columns"), std::string::npos);
    EXPECT_NE(file.find(R"({"name":"mem.dirty [bytes]","unit":"bytes","description":"Memory by use)"),
              std::string::npos);
  }
}

TEST(TelemetryParquet, WritesNothingIfNoChannelMeetsThePatterns) {
  const TemporaryDirectory directory;
  std::string file;
  EXPECT_THROW(static_cast<void>(write_parquet({write_node(directory, "n01", "mem.dirty")}, {"no.such"},
                                               [&](std::string_view more) { file += more; })),
               Error);
  EXPECT_EQ(file, "");
}

}  // namespace
}  // namespace reveal::tests::telemetry_parquet_test
