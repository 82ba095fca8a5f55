#include "postproc/analysis/trace_events.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/trace_writer.h"
#include "tests/unit/hdf5schema/sample_trace.h"

namespace reveal::tests::trace_events_test {
namespace {

constexpr std::int64_t kTick = 100'000'000;
constexpr std::int64_t kBegin = 1'700'000'000'000'000'000;  // UTC of monotonic 0
constexpr const char* kHostile = "eth0\"},{\"ph\":\"\x1b[2J\xff</script>";

TimeSpan seconds(double begin, double end) {
  return {kBegin + std::llround(begin * 1e9), kBegin + std::llround(end * 1e9)};
}

/// 100 s of a level that is the second, of another one, and of training steps of 50 ms of two ranks, with a collective
/// of one of them in each second.
ListedTrace write_node(const TemporaryDirectory& directory, const std::string& node) {
  const std::filesystem::path path = directory.path() / (node + ".h5");
  TraceHeader header = sample_header();
  header.node = node;
  TraceWriter writer(path, header);
  const auto levels = writer.add_family(gauge_family());
  for (const char* metric : {"mem.available", "mem.other"}) writer.add_channel(levels, {.metric = metric});
  writer.add_channel(levels, {.metric = "net.level", .instance = kHostile});
  writer.start();
  writer.append_clock({0, kBegin, 1000});
  for (std::int64_t tick = 1; tick <= 1000; ++tick) {
    const std::int64_t row[] = {tick / 10, 7, 7};
    writer.append_row(levels, tick * kTick, row);
    for (std::int64_t half = 0; half < 2; ++half) {
      const std::int64_t begin = tick * kTick + half * kTick / 2;
      for (const char* rank : {"rank0", "rank1"}) {
        writer.append_step({.rank = rank,
                            .number = 2 * tick + half,
                            .begin_ns = begin,
                            .duration_ns = tick == 500 ? kMissing : kTick / 2,
                            .waiting_ns = 3'000'000,
                            .gc_ns = 2'000'000});
      }
    }
    if (tick % 10 == 0) {
      writer.append_collective(
          {.rank = "rank1", .function = "MPI_Bcast", .communicator = 2, .number = tick / 10, .begin_ns = tick * kTick});
    }
    if (tick % 100 == 0) wait_until_flushed(writer, tick * kTick - 2 * kTick);
  }
  writer.close();
  return {.path = path, .node = node};
}

Finding finding(const std::string& node, const TimeSpan& span) {
  Finding found;
  found.id = "net.tcp_retrans_fault";
  found.title = kHostile;
  found.sentence = "what happened";
  found.nodes = {node};
  found.intervals = {span};
  found.evidence = {{.metric = "mem.available", .node = node}, {.metric = "net.level", .instance = kHostile}};
  return found;
}

Report report_of(const std::vector<Finding>& findings) {
  Report report;
  report.job.begin_utc_ns = kBegin;
  report.job.end_utc_ns = kBegin + 100 * 1'000'000'000LL;
  report.findings = findings;
  return report;
}

class Exported {
 public:
  Exported(const Report& report, const std::vector<ListedTrace>& traces, const TraceEventChoice& choice = {}) {
    left_out = write_trace_events(report, traces, choice, [&](std::string_view piece) { text += piece; });
    json = nlohmann::json::parse(text);
  }
  /// In one process.
  [[nodiscard]] std::vector<nlohmann::json> events(const std::string& phase, const std::string& category = "") const {
    std::vector<nlohmann::json> found;
    for (const auto& event : json.at("traceEvents")) {
      if (event.at("ph") == phase && event.value("cat", "") == category) found.push_back(event);
    }
    return found;
  }
  [[nodiscard]] std::vector<nlohmann::json> counters(const std::string& name) const {
    std::vector<nlohmann::json> found = events("C");
    std::erase_if(found, [&](const auto& event) { return event.at("name") != name; });
    return found;
  }

  std::string text;
  nlohmann::json json;
  std::vector<std::string> left_out;
};

TEST(TraceEvents, AreThoseAroundTheIntervalsOfTheReport) {
  const TemporaryDirectory directory;
  const Exported all(report_of({finding("n01", seconds(40, 60))}), {write_node(directory, "n01")});
  const auto findings = all.events("X", "findings");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_DOUBLE_EQ(findings[0].at("ts").get<double>(), 40e6);
  EXPECT_DOUBLE_EQ(findings[0].at("dur").get<double>(), 20e6);
  EXPECT_EQ(findings[0].at("args").at("rule"), "net.tcp_retrans_fault");
  const auto windows = all.events("X", "exported");
  ASSERT_EQ(windows.size(), 1U);
  EXPECT_DOUBLE_EQ(windows[0].at("ts").get<double>(), 35e6);
  EXPECT_DOUBLE_EQ(windows[0].at("dur").get<double>(), 30e6);

  const auto levels = all.counters("mem.available");
  EXPECT_NEAR(static_cast<double>(levels.size()), 300, 2);
  for (const auto& level : levels) {
    const double second = level.at("ts").get<double>() / 1e6;
    EXPECT_GE(second, 34.9);
    EXPECT_LE(second, 65);
    EXPECT_NEAR(level.at("args").at("bytes").get<double>(), second, 1.2);
  }
  EXPECT_TRUE(all.counters("mem.other").empty()) << "nothing says anything of it";

  const auto steps = all.events("X", "step");
  EXPECT_NEAR(static_cast<double>(steps.size()), 2 * (600 - 2), 8);
  std::map<int, double> ends;
  for (const auto& step : steps) {
    double& end = ends[step.at("tid").get<int>()];
    EXPECT_GE(step.at("ts").get<double>(), end);
    end = step.at("ts").get<double>() + step.at("dur").get<double>();
    EXPECT_EQ(step.at("args").at("waiting_ms"), 3);
    EXPECT_EQ(step.at("args").at("gc_ms"), 2);
    EXPECT_EQ(step.at("name").get<std::string>(), "training step") << "its backward pass is a part of it";
  }
  EXPECT_EQ(ends.size(), 2U);
  EXPECT_EQ(all.events("i", "step").size(), 4U) << "how long they took is not known";
  const auto collectives = all.events("i", "collective");
  ASSERT_NEAR(static_cast<double>(collectives.size()), 30, 1);
  EXPECT_EQ(collectives[0].at("name"), "MPI_Bcast");
  EXPECT_EQ(collectives[0].at("args").at("number"), 35);
  EXPECT_EQ(collectives[0].at("args").at("communicator"), 2);
  EXPECT_DOUBLE_EQ(collectives[0].at("ts").get<double>(), 35e6);
  EXPECT_TRUE(all.left_out.empty());
}

TEST(TraceEvents, AreEscapedWhateverIsInNames) {
  const TemporaryDirectory directory;
  const Exported all(report_of({finding("n01", seconds(40, 60))}), {write_node(directory, "n01")});
  for (const char letter : all.text) ASSERT_TRUE(letter == '\n' || (letter >= ' ' && letter <= '~')) << int{letter};
  EXPECT_EQ(all.events("X", "findings").at(0).at("name"), "eth0\"},{\"ph\":\"\x1b[2J\xef\xbf\xbd</script>");
  EXPECT_FALSE(all.counters("net.level/eth0\"},{\"ph\":\"\x1b[2J\xef\xbf\xbd</script>").empty());
}

TEST(TraceEvents, NameAProcessForEachNodeAndAThreadForEachRank) {
  const TemporaryDirectory directory;
  const std::vector<ListedTrace> nodes{write_node(directory, "n01"), write_node(directory, "n02")};
  const Exported all(report_of({finding("n02", seconds(40, 60)), finding("n02", seconds(50, 70))}), nodes);
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> threads;
  for (const auto& event : all.events("M")) {
    const std::string named = event.at("args").value("name", "");
    const int process = event.at("pid").get<int>();
    if (event.at("name") == "process_name") processes[process] = named;
    if (event.at("name") == "thread_name") threads[{process, event.at("tid").get<int>()}] = named;
  }
  EXPECT_EQ(processes, (std::map<int, std::string>{{1, "n01"}, {2, "n02"}}));
  std::set<std::string> of_second;
  for (const auto& [place, name] : threads) {
    if (place.first == 2) of_second.insert(name);
  }
  EXPECT_EQ(of_second,
            (std::set<std::string>{"exported", "findings", "findings 2", "rank0", "rank1", "rank1: collectives"}));
  for (const auto& event : all.events("X", "findings")) EXPECT_EQ(event.at("pid"), 2) << "it is of that node alone";
  // Slices of one thread never overlap.
  std::map<std::pair<int, int>, double> ends;
  for (const auto& event : all.events("X", "findings")) {
    double& end = ends[{event.at("pid").get<int>(), event.at("tid").get<int>()}];
    EXPECT_GE(event.at("ts").get<double>(), end);
    end = event.at("ts").get<double>() + event.at("dur").get<double>();
  }
}

TEST(TraceEvents, AreOfTheWholeJobWhereThatIsAskedFor) {
  const TemporaryDirectory directory;
  const std::vector<ListedTrace> nodes{write_node(directory, "n01")};
  EXPECT_THROW(Exported(report_of({}), nodes), Error);
  const Exported all(report_of({}), nodes, {.metrics = {"mem.o*"}, .whole_job = true});
  EXPECT_GT(all.counters("mem.other").size(), 950U);
  EXPECT_TRUE(all.counters("mem.available").empty());
  EXPECT_GT(all.events("X", "step").size(), 3900U);
  const Exported none(report_of({}), nodes, {.metrics = {"no.such"}, .whole_job = true});
  EXPECT_EQ(none.left_out, std::vector<std::string>{"no channel meets --metrics"});
}

TEST(TraceEvents, AreThoseOfTheOtherNodesIfATraceIsDamaged) {
  const TemporaryDirectory directory;
  const ListedTrace broken{.path = directory.path() / "n01.h5", .node = "n01"};
  std::ofstream(broken.path) << "nonsense";
  const Report report = report_of({finding("n02", seconds(40, 60))});
  const Exported all(report, {broken, write_node(directory, "n02")});
  EXPECT_EQ(all.events("X", "findings").size(), 1U);
  ASSERT_EQ(all.left_out.size(), 1U);
  EXPECT_NE(all.left_out[0].find("n01.h5"), std::string::npos) << all.left_out[0];
  EXPECT_THROW(Exported(report, {broken}), Error);
  EXPECT_THROW(Exported(report, {broken, broken}), Error);
}

TEST(TraceEvents, EndWhenTheirOutputCannotBeWritten) {
  const TemporaryDirectory directory;
  const std::vector<ListedTrace> nodes{write_node(directory, "n01"), write_node(directory, "n02")};
  std::size_t pieces = 0;
  const auto full = [&pieces](std::string_view) {
    ++pieces;
    throw Error("no space left");
  };
  EXPECT_THROW(static_cast<void>(write_trace_events(report_of({}), nodes, {.metrics = {"*"}, .whole_job = true}, full)),
               Error);
  EXPECT_EQ(pieces, 1U);
}

TEST(TraceEvents, KeepToTheJobWhereTheReportHasImpossibleTimes) {
  const TemporaryDirectory directory;
  const std::vector<ListedTrace> nodes{write_node(directory, "n01")};
  Report hostile = report_of({finding("n01", {INT64_MIN, INT64_MAX}), finding("n01", {INT64_MAX, INT64_MIN})});
  EXPECT_LT(Exported(hostile, nodes).text.size(), 10U << 20U);
  hostile.job.begin_utc_ns = INT64_MIN;
  hostile.job.end_utc_ns = INT64_MAX;
  EXPECT_LT(Exported(hostile, nodes, {.whole_job = true}).text.size(), 10U << 20U);
}

}  // namespace
}  // namespace reveal::tests::trace_events_test
