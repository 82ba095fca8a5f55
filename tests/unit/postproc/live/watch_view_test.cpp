// The page of a watch as lines.
#include "postproc/live/watch_view.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/trace_writer.h"
#include "postproc/live/watched_node.h"
#include "tests/unit/hdf5schema/sample_trace.h"

namespace reveal::tests::watch_view_test {
namespace {

constexpr std::int64_t kNoon = 1'763'640'000'000'000'000;  // 2025-11-20 12:00:00 UTC

NodeView node(const std::string& name) {
  return {.node = name,
          .state = LiveState::live,
          .seconds = 700,
          .channels = 712,
          .collector_percent = 0.41,
          .heard_utc_ns = kNoon,
          .pace = {.per_second = 1.2, .estimated = true, .done = 840, .planned = 3000},
          .job = "4711",
          .job_name = "train",
          .command = "python train.py"};
}

EarlierInterval earlier(int minute) {
  return {"n02", kNoon - minute * 60 * kSecond, kNoon - (minute * 60 - 9) * kSecond, 31, 240, "cpu.pressure", "above"};
}

std::vector<std::string> page_of(const WatchedJob& job, const std::vector<EarlierInterval>& intervals,
                                 const std::vector<AlertNotice>& alerts = {}) {
  return draw_page(
      {.job = job, .alerts = alerts, .earlier = intervals, .watching_percent = 0.3, .now_utc_ns = kNoon, .problem = ""},
      {.width = 110, .height = 40});
}

TEST(WatchPage, ShowsAllNodesOfAJobThatIsWatchedFromOutside) {
  WatchedJob job{.title = "job 4711 on 2 nodes", .nodes = {node("n01"), node("n02")}, .runs = 24, .most_on_node = 9.5};
  job.nodes[1].state = LiveState::silent;
  job.nodes[1].silent_seconds = 20;
  job.nodes[1].meters = {{"mem.available", {1e9, 2e9}}};
  const std::vector<std::string> expected = {
      "reveal watch job 4711 on 2 nodes   job 4711 train   python train.py",
      "2025-11-20 12:00:00 UTC",
      "cost: collector n01 0.41 %, n02 0.41 %; watching 0.3 % of a core, 24 detection runs; on each node at most 9...",
      "alerts show changes; the report at the end names their cause",
      "iteration 840 of 3000 (estimated), 1.2 /s, about 30 min left",
      "",
      "n01   live   11 min 40 s of the job, 712 channels",
      "  iterations (est.)          1.2 /s",
      "",
      "n02   silent for 20 s   11 min 40 s of the job, 712 channels",
      "  iterations (est.)          1.2 /s",
      "  memory available         1.86 GiB",
      "",
      "before this watch (rough check of the collector, not judged by rules)",
      "  n02: cpu.pressure above its usual range 11:30:00 to 11:30:09 (31 of 240 counters outside)",
      "nothing heard of n02 since 12:00:00",
      "no alert: no abnormal interval in 24 detection runs",
  };
  EXPECT_EQ(page_of(job, {earlier(30)}), expected);
}

TEST(WatchPage, ShowsTheNewestOfManyEarlierIntervals) {
  const WatchedJob job{.title = "4711", .nodes = {node("n01")}, .runs = 1};
  std::vector<EarlierInterval> many;
  for (int minute = 60; minute > 0; minute -= 10) many.push_back(earlier(minute));
  std::vector<std::string> shown;
  for (const std::string& line : page_of(job, many)) {
    if (line.starts_with("  n02") || line.starts_with("  and")) shown.push_back(line.substr(0, 50));
  }
  EXPECT_EQ(shown,
            (std::vector<std::string>{"  n02: cpu.pressure above its usual range 11:30:00",
                                      "  n02: cpu.pressure above its usual range 11:40:00",
                                      "  n02: cpu.pressure above its usual range 11:50:00", "  and 3 earlier ones"}));
}

TEST(WatchPage, HasTheCostOfManyNodesInOneNumber) {
  WatchedJob job{.title = "4711", .nodes = {}, .runs = 1};
  for (int i = 0; i < 256; ++i) job.nodes.push_back(node("n" + std::to_string(i)));
  job.nodes[9].collector_percent = 0.92;
  job.nodes[10].collector_percent = std::nullopt;
  const std::vector<std::string> page = page_of(job, {});
  EXPECT_EQ(page[2], "cost: collector at most 0.92 % on 255 nodes; watching 0.3 % of a core, 1 detection run");
  EXPECT_LE(page.size(), 40U);
}

/// A trace of a quarter of an hour that goes on.
void write_long_trace(const std::filesystem::path& path) {
  TraceWriter writer(path, sample_header());
  const auto family = writer.add_family(counter_family());
  writer.add_channel(family, {.metric = "vm.faults"});
  writer.start();
  writer.append_clock({kSecond, 2 * kSecond, 0});
  for (std::int64_t row = 0; row < 9000; ++row) {
    writer.append_row(family, kSecond + row * kSecond / 10, std::vector<std::int64_t>{100 + 3 * row});
    if (row % 100 == 99) wait_until_flushed(writer, kSecond + row * kSecond / 10);
  }
  writer.close();
}

TEST(WatchedNode, TellsOnceOfIntervalsBeforeItsFirstRow) {
  const TemporaryDirectory directory;
  write_long_trace(directory.path() / "n01.h5");
  std::filesystem::rename(directory.path() / "n01.h5", directory.path() / "n01.h5.part");
  // The last ten minutes begin at 302 s of the wall clock.
  std::ofstream(directory.path() / "n01.status.json")
      << R"({"schema":"reveal.status/1","cpu_percent_of_core":0.4,"iterations_planned":3000,"closed_episodes":[
            {"begin_utc_ns":200000000000,"end_utc_ns":212000000000,"channels":9,"of_channels":10,"farthest":"vm.faults",
             "direction":"above","ranges":3},
            {"begin_utc_ns":400000000000,"end_utc_ns":412000000000,"channels":9,"of_channels":10,"farthest":"vm.faults",
             "direction":"above","ranges":3}]})";
  WatchedNode watched(directory.path() / "n01.h5");
  CpuBudget budget(0.1);
  std::vector<EarlierInterval> earlier;
  std::chrono::steady_clock::time_point now{std::chrono::hours(1)};
  for (int i = 0; i < 3; ++i) {
    static_cast<void>(watched.advance(now += std::chrono::seconds(6), budget));
    for (const EarlierInterval& interval : watched.take_earlier()) earlier.push_back(interval);
  }
  const EarlierInterval expected{watched.trace().node(), 200 * kSecond, 212 * kSecond, 9, 10, "vm.faults", "above"};
  EXPECT_EQ(earlier, std::vector<EarlierInterval>{expected});
  EXPECT_EQ(watched.view(0).pace.planned, 3000);
  EXPECT_EQ(watched.view(0).collector_percent, 0.4);
}

}  // namespace
}  // namespace reveal::tests::watch_view_test
