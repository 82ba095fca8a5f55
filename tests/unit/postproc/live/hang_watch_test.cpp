// A hang while it lasts, out of the rows of a trace.
#include "postproc/live/hang_watch.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/trace_writer.h"
#include "postproc/live/live_detector.h"
#include "tests/unit/hdf5schema/sample_trace.h"
#include "tests/unit/postproc/config_of.h"

namespace reveal::tests::hang_watch_test {
namespace {

constexpr std::int64_t kTick = 100'000'000;
constexpr std::int64_t kTicks = 1000;

/// Two ranks reduce something on each tick; from `stops` on, rank 1 calls nothing and rank 0 waits for it.
SeenHang hang_seen_in(std::int64_t stops, std::string_view configuration = "", const std::vector<Event>& events = {}) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "n01.h5";
  {
    TraceWriter writer(path, sample_header());
    const auto calls = writer.add_family(counter_family("stack/calls"));
    const auto cpu = writer.add_family(counter_family("process/cpu"));
    const auto job = writer.add_family(counter_family("job/cpu"));
    for (const char* rank : {"rank0", "rank1"}) {
      writer.add_channel(calls, {.metric = "stack.calls", .instance = std::string(rank) + "/gloo.allreduce"});
      writer.add_channel(cpu, {.metric = "process.cpu_time", .instance = rank});
    }
    writer.add_channel(calls, {.metric = "stack.calls", .instance = "rank0/torch.backward"});
    writer.add_channel(job, {.metric = "job.cpu_time"});
    writer.start();
    writer.append_clock({kSecond, 2 * kSecond, 0});
    for (const Event& event : events) writer.append_event(event);
    for (std::int64_t tick = 0; tick < kTicks; ++tick) {
      const std::int64_t time = kSecond + tick * kTick;
      const std::int64_t last = std::min(tick, stops);
      const std::int64_t used = last * kTick;
      writer.append_row(calls, time, std::vector<std::int64_t>{last + (tick > stops ? 1 : 0), last, last});
      writer.append_row(cpu, time, std::vector<std::int64_t>{used, used});
      writer.append_row(job, time, std::vector<std::int64_t>{2 * used});
      if (tick % 100 == 99) wait_until_flushed(writer, time);
    }
    writer.close();
  }
  LiveTrace trace(path, kLiveBlock);
  trace.poll(std::chrono::steady_clock::time_point(std::chrono::hours(1)));
  LiveTrace* const nodes[] = {&trace};
  return hang_in(nodes, analysis_settings(config_of(configuration)));
}

std::string seen_in(std::int64_t stops, std::string_view configuration = "") {
  return hang_seen_in(stops, configuration).sentence;
}

TEST(HangWatch, NamesTheRankThatNeverEntered) {
  const std::string sentence = seen_in(500);
  EXPECT_NE(sentence.find("rank0 on n01 waited in gloo.allreduce for rank1 on n01, which did not enter it and used 0 "
                          "cpus meanwhile."),
            std::string::npos)
      << sentence;
}

TEST(HangWatch, NamesTheCallOnceItIsWrittenToTheTrace) {
  EXPECT_FALSE(hang_seen_in(500).detailed);
  std::vector<Event> events;
  for (const char* rank : {"rank0", "rank1"}) {
    const std::string text =
        "comm=0 ranks=2 rank=" + std::string(1, rank[4]) + " calls=500 begin=5 gloo.allreduce=4096x9";
    events.push_back({kSecond + 540 * kTick, rank, "last_collectives", text});
  }
  const SeenHang seen = hang_seen_in(500, "", events);
  EXPECT_TRUE(seen.detailed);
  EXPECT_NE(seen.sentence.find("rank0 on n01 waited in gloo.allreduce (4096 bytes, on communicator 1 with 2 ranks) for "
                               "rank1 on n01"),
            std::string::npos)
      << seen.sentence;
}

/// Writes the trace of one node, with rows on each tick.
template <typename AddFamilies, typename Row>
void write_trace(const std::filesystem::path& path, const std::string& node, const AddFamilies& add, const Row& row) {
  TraceHeader header = sample_header();
  header.node = node;
  TraceWriter writer(path, header);
  add(writer);
  writer.start();
  writer.append_clock({kSecond, 2 * kSecond, 0});
  for (std::int64_t tick = 0; tick < kTicks; ++tick) {
    const std::int64_t time = kSecond + tick * kTick;
    row(writer, tick, time);
    if (tick % 100 == 99) wait_until_flushed(writer, time);
  }
  writer.close();
}

TEST(HangWatch, NamesANodeWhoseCallsAreNotCounted) {
  constexpr std::int64_t kStops = 500;
  const TemporaryDirectory directory;
  TraceWriter::FamilyId calls{};
  TraceWriter::FamilyId durations{};
  write_trace(
      directory.path() / "n01.h5", "n01",
      [&](TraceWriter& writer) {
        calls = writer.add_family(counter_family("stack/calls"));
        durations = writer.add_family(gauge_family("stack/durations"));
        for (const char* rank : {"rank0", "rank1"}) {
          writer.add_channel(calls, {.metric = "stack.calls", .instance = std::string(rank) + "/gloo.allreduce"});
          writer.add_channel(durations,
                             {.metric = "stack.in_flight", .instance = std::string(rank) + "/gloo.allreduce"});
        }
        writer.add_channel(calls, {.metric = "stack.calls", .instance = "rank0/torch.backward"});
      },
      [&](TraceWriter& writer, std::int64_t tick, std::int64_t time) {
        const std::int64_t last = std::min(tick, kStops);
        const std::int64_t inside = (tick - last) * kTick;
        writer.append_row(calls, time, std::vector<std::int64_t>{last, last, last});
        writer.append_row(durations, time, std::vector<std::int64_t>{inside, inside});
      });
  TraceWriter::FamilyId job{};
  write_trace(
      directory.path() / "n02.h5", "n02",
      [&](TraceWriter& writer) {
        job = writer.add_family(counter_family("job/cpu"));
        writer.add_channel(job, {.metric = "job.cpu_time"});
      },
      [&](TraceWriter& writer, std::int64_t tick, std::int64_t time) {
        writer.append_row(job, time, std::vector<std::int64_t>{tick * kTick});
      });
  LiveTrace one(directory.path() / "n01.h5", kLiveBlock);
  LiveTrace other(directory.path() / "n02.h5", kLiveBlock);
  for (LiveTrace* const trace : {&one, &other}) {
    trace->poll(std::chrono::steady_clock::time_point(std::chrono::hours(1)));
  }
  LiveTrace* const nodes[] = {&one, &other};
  const std::string sentence = hang_in(nodes, analysis_settings(config_of(""))).sentence;
  EXPECT_NE(sentence.find("all 2 recorded ranks were in gloo.allreduce, and it did not end; the ranks of n02 were not "
                          "recorded."),
            std::string::npos)
      << sentence;
}

TEST(HangWatch, IsSilentWhileRanksGoOn) {
  EXPECT_EQ(seen_in(kTicks), "");
  EXPECT_EQ(seen_in(kTicks - 60), "") << "some seconds";
}

TEST(HangWatch, TellsOfAHangWithinFifteenSeconds) {
  EXPECT_NE(seen_in(kTicks - 120).find("The ranks made no progress in the last 1"), std::string::npos);
}

TEST(HangWatch, KeepsToTheSettingsOfTheRule) {
  EXPECT_EQ(seen_in(500, "[rule.\"stack.hang\"]\nenabled = false\n"), "");
  EXPECT_EQ(seen_in(500, "[rule.\"stack.hang\"]\nmin_seconds = 60\nmin_live_seconds = 60\n"), "");
  EXPECT_NE(seen_in(500, "[rule.\"stack.hang\"]\nmin_seconds = 60\nmin_live_seconds = 16\n"), "");
  EXPECT_EQ(seen_in(500, "[report]\nmute = [\"stack.hang@n0*\"]\n"), "");
  EXPECT_NE(seen_in(500, "[report]\nmute = [\"stack.hang@n02\", \"stack.stall@n01\"]\n"), "");
}

}  // namespace
}  // namespace reveal::tests::hang_watch_test
