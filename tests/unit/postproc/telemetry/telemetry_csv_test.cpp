#include "postproc/telemetry/telemetry_csv.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "hdf5schema/basics/error.h"
#include "tests/unit/hdf5schema/sample_trace.h"

namespace reveal::tests::telemetry_csv_test {
namespace {

constexpr std::int64_t kTick = 100'000'000;
constexpr std::int64_t kBegin = 1'700'000'000'000'000'000;  // UTC of monotonic 0: 2023-11-14 22:13:20

/// Four ticks, between which there are three samples: each has the row at its end.
ListedTrace write_node(const TemporaryDirectory& directory, const std::string& node, const char* metric,
                       std::int64_t level) {
  const std::filesystem::path path = directory.path() / (node + ".h5");
  TraceHeader header = sample_header();
  header.node = node;
  TraceWriter writer(path, header);
  const auto levels = writer.add_family(gauge_family());
  writer.add_channel(levels, {.metric = "mem.available"});
  writer.add_channel(levels, {.metric = metric});
  writer.start();
  writer.append_clock({0, kBegin, 1000});
  for (std::int64_t tick = 0; tick <= 3; ++tick) {
    const std::int64_t row[] = {level + tick, tick};
    writer.append_row(levels, tick * kTick, row);
  }
  writer.close();
  return {.path = path, .node = node};
}

struct Exported {
  std::vector<std::string> lines, left_out;
};

Exported exported(const std::vector<ListedTrace>& traces, const std::vector<std::string>& metrics) {
  std::string text;
  Exported result;
  result.left_out = write_csv(traces, metrics, [&](std::string_view more) { text += more; });
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) result.lines.push_back(line);
  return result;
}

TEST(TelemetryCsv, HasNoColumnOfNodesForOneNode) {
  const TemporaryDirectory directory;
  const Exported table = exported({write_node(directory, "n01", "mem.dirty", 10)}, {"mem.available"});
  ASSERT_EQ(table.lines.size(), 4U);
  EXPECT_EQ(table.lines[0], "time,mem.available [bytes]");
  EXPECT_EQ(table.lines[1], "2023-11-14T22:13:20.000Z,11");
  EXPECT_TRUE(table.left_out.empty());
}

TEST(TelemetryCsv, IsTheUnionOfTheColumnsOfSeveralNodes) {
  const TemporaryDirectory directory;
  const Exported table =
      exported({write_node(directory, "n01", "mem.dirty", 10), write_node(directory, "n,2", "mem.mapped", 20)}, {});
  ASSERT_EQ(table.lines.size(), 7U);
  EXPECT_EQ(table.lines[0], "time,node,mem.available [bytes],mem.dirty [bytes],mem.mapped [bytes]");
  EXPECT_EQ(table.lines[1], "2023-11-14T22:13:20.000Z,n01,11,1,");
  EXPECT_EQ(table.lines[6], "2023-11-14T22:13:20.200Z,\"n,2\",23,,3");
}

TEST(TelemetryCsv, FindsAPatternThatMeetsAChannelOfAnyNode) {
  const TemporaryDirectory directory;
  const Exported table =
      exported({write_node(directory, "n01", "mem.dirty", 10), write_node(directory, "n02", "mem.mapped", 20)},
               {"mem.mapped", "no.such"});
  EXPECT_EQ(table.lines.at(0), "time,node,mem.mapped [bytes]");
  EXPECT_EQ(table.lines.at(1), "2023-11-14T22:13:20.000Z,n01,");
  EXPECT_EQ(table.left_out, std::vector<std::string>{"no node has a channel \"no.such\""});
}

TEST(TelemetryCsv, ExportsTheOtherNodesIfATraceIsDamaged) {
  const TemporaryDirectory directory;
  const ListedTrace broken{.path = directory.path() / "n02.h5", .node = "n02"};
  std::ofstream(broken.path) << "nonsense";
  const Exported table = exported({write_node(directory, "n01", "mem.dirty", 10), broken}, {"mem.dirty"});
  EXPECT_EQ(table.lines.size(), 4U);
  ASSERT_EQ(table.left_out.size(), 1U);
  EXPECT_NE(table.left_out[0].find("n02.h5"), std::string::npos) << table.left_out[0];
  EXPECT_THROW(static_cast<void>(exported({broken}, {})), Error);
  EXPECT_THROW(static_cast<void>(exported({broken, broken}, {})), Error);
}

TEST(TelemetryCsv, HasEachNodeOnce) {
  const TemporaryDirectory directory;
  const ListedTrace first = write_node(directory, "n01", "mem.dirty", 10);
  const ListedTrace copy{.path = directory.path() / "n01.copy.h5", .node = "n01.copy"};
  std::filesystem::copy_file(first.path, copy.path);
  const Exported table = exported({first, copy}, {"mem.dirty"});
  EXPECT_EQ(table.lines.size(), 4U);
  ASSERT_EQ(table.left_out.size(), 1U);
  EXPECT_TRUE(table.left_out[0].ends_with("n01.copy.h5: left out, a second trace of n01")) << table.left_out[0];
}

TEST(TelemetryCsv, EndsWhenItsOutputCannotBeWritten) {
  const TemporaryDirectory directory;
  std::size_t pieces = 0;
  const auto full_after_the_header = [&pieces](std::string_view) {
    if (++pieces > 1) throw Error("no space left");
  };
  EXPECT_THROW(static_cast<void>(write_csv(
                   {write_node(directory, "n01", "mem.dirty", 10), write_node(directory, "n02", "mem.dirty", 20)}, {},
                   full_after_the_header)),
               Error);
  EXPECT_EQ(pieces, 2U) << "the second node was tried";
}

/// A node of which the stack of one process was read twice; no place: of none.
ListedTrace write_python_node(const TemporaryDirectory& directory, const std::string& node, const std::string& place) {
  const std::filesystem::path path = directory.path() / (node + ".h5");
  TraceHeader header = sample_header();
  header.node = node;
  TraceWriter writer(path, header);
  const auto levels = writer.add_family(gauge_family());
  writer.add_channel(levels, {.metric = "mem.available"});
  writer.start();
  writer.append_clock({0, kBegin, 1000});
  const std::int64_t row[] = {1};
  for (std::int64_t tick = 0; tick <= 3; ++tick) writer.append_row(levels, tick * kTick, row);
  if (!place.empty()) writer.append_event({2'000'000'000, "rank0", "python_frames", "1s a? a=" + place});
  writer.close();
  return {.path = path, .node = node};
}

TEST(PythonCsv, IsOneTableOfSeveralNodes) {
  const TemporaryDirectory directory;
  std::string text;
  const auto left_out =
      write_python_csv({write_python_node(directory, "n01", "load(a.py:8)"), write_python_node(directory, "n02", ""),
                        write_python_node(directory, "n,3", "step(b.py:9)")},
                       [&](std::string_view more) { text += more; });
  EXPECT_TRUE(left_out.empty());
  EXPECT_EQ(text,
            "time,node,process,place,weight\n"
            "2023-11-14T22:13:20.000Z,n01,rank0,load (a.py:8),1\n"
            "2023-11-14T22:13:21.000Z,n01,rank0,,1\n"
            "2023-11-14T22:13:20.000Z,\"n,3\",rank0,step (b.py:9),1\n"
            "2023-11-14T22:13:21.000Z,\"n,3\",rank0,,1\n");
}

TEST(PythonCsv, EndsWhenItsOutputCannotBeWritten) {
  const TemporaryDirectory directory;
  const std::vector<ListedTrace> nodes{write_python_node(directory, "n01", "load(a.py:8)"),
                                       write_python_node(directory, "n02", "load(a.py:8)")};
  EXPECT_THROW(static_cast<void>(write_python_csv(nodes, [](std::string_view) { throw Error("no space left"); })),
               Error);
}

TEST(PythonCsv, SaysForHowLongASampleStands) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "n01.h5";
  TraceWriter writer(path, sample_header());
  writer.start();
  writer.append_event({4'000'000'000, "rank0", "python_frames", "1s a a=load(a.py:8)"});
  writer.append_event({4'200'000'000, "rank0", "python_frames", "100ms bb b=step(b.py:9)"});
  writer.close();
  std::string text;
  static_cast<void>(write_python_csv({{.path = path, .node = "n01"}}, [&](std::string_view more) { text += more; }));
  EXPECT_NE(text.find("load (a.py:8),1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("step (b.py:9),0.1\n"), std::string::npos) << text;
}

TEST(PythonCsv, HasNoEscapeSequenceOfTheTrace) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "n01.h5";
  TraceWriter writer(path, sample_header());
  writer.start();
  writer.append_event({4'000'000'000, "rank\x1b[2J0", "python_frames", "1s a a=load(a.py:8)"});
  writer.close();
  std::string text;
  static_cast<void>(write_python_csv({{.path = path, .node = "n01"}}, [&](std::string_view more) { text += more; }));
  EXPECT_NE(text.find(",rank0,load (a.py:8),"), std::string::npos) << text;
}

TEST(PythonCsv, NeedsSamples) {
  const TemporaryDirectory directory;
  const std::vector<ListedTrace> traces = {write_python_node(directory, "n01", "")};
  EXPECT_THROW(static_cast<void>(write_python_csv(traces, [](std::string_view) {})), Error);
}

}  // namespace
}  // namespace reveal::tests::telemetry_csv_test
