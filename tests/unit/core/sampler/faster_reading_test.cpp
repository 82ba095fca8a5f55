// When dear probes are read faster: onset, end, limits, and replays.
#include "core/sampler/faster_reading.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>

#include "hdf5schema/trace_reader.h"
#include "tests/unit/core/test_host.h"
#include "tests/unit/hdf5schema/sample_trace.h"

namespace reveal::tests::faster_reading_test {
namespace {

/// Seconds in [from, to) in which the probes are read faster, where the node is unusual in these seconds.
int faster_seconds(FasterTimes& times, int from, int to, bool unusual) {
  int seconds = 0;
  for (int second = from; second < to; ++second) seconds += times.look(second * kSecond, unusual) ? 1 : 0;
  return seconds;
}

TEST(FasterTimes, BeginAtOnceAndEndTenSecondsLater) {
  FasterTimes times(0);
  EXPECT_EQ(faster_seconds(times, 1, 1000, false), 0);
  EXPECT_TRUE(times.look(1000 * kSecond, true));
  EXPECT_EQ(faster_seconds(times, 1001, 1060, true), 9);
  EXPECT_EQ(times.total_ns(), 10 * kSecond);
}

TEST(FasterTimes, EndWithWhatIsUnusualAndBeginAgainWithTheNext) {
  FasterTimes times(0);
  EXPECT_EQ(faster_seconds(times, 1, 1000, false), 0);
  EXPECT_EQ(faster_seconds(times, 1000, 1004, true), 4);
  EXPECT_EQ(faster_seconds(times, 1004, 1006, false), 0);
  EXPECT_EQ(faster_seconds(times, 1006, 1060, true), 10);
  EXPECT_EQ(times.total_ns(), 14 * kSecond);
}

TEST(FasterTimes, AreNoMoreThanATenthOfTheRecording) {
  FasterTimes times(100 * kSecond);
  EXPECT_EQ(faster_seconds(times, 101, 140, false), 0);
  EXPECT_EQ(faster_seconds(times, 140, 160, true), 4) << "40 seconds were recorded";
  int faster = 4;
  for (int second = 160; second < 10'100; ++second) {
    faster += times.look(second * kSecond, second % 15 != 0) ? 1 : 0;
    ASSERT_LE(10 * times.total_ns(), (second - 100) * kSecond) << second;
  }
  EXPECT_EQ(faster, 999);
}

TEST(FasterTimes, AreNoMoreThanAnHourInAll) {
  FasterTimes times(0);
  for (int second = 1; second < 1'000'000; ++second) static_cast<void>(times.look(second * kSecond, second % 101 != 0));
  EXPECT_EQ(times.total_ns(), 3600 * kSecond);
}

constexpr std::chrono::milliseconds kTenth{100};
constexpr MetricHelp kHelp[] = {{"test.count", "A counter."}};
constexpr FamilyTable kCounts{"cpu/counts",   Kind::counter,   Unit::count,    Scope::node,
                              Subsystem::cpu, "Some counters", "/proc/counts", kHelp};

/// Twelve counters whose rates take five values in turn, ten ticks a second.
class Node {
 public:
  explicit Node(KernelTree& fs, TraceWriter* writer = nullptr)
      : fs_(fs), sink_(writer), counts_(&sink_.add_family(kCounts, kTenth)) {
    for (int i = 0; i < 12; ++i) counts_->add("test.count", std::to_string(i));
    if (writer != nullptr) writer->start();
    reading_.emplace(fs, sink_, "python tcp_peers", 10, TickTime{});
  }

  /// So many seconds with rates higher by so much; returns the ticks in which probes are read faster.
  int live(int seconds, std::int64_t more = 0, std::int64_t missed = 0) {
    int faster = 0;
    for (int i = 0; i < 10 * seconds; ++i) {
      ++tick_;
      const std::int64_t time = tick_ * kSecond / 10;
      fs_.mark_tick({time, time});
      sink_.set_now(time);
      const bool on = reading_->look({.time = {time, time}, .number = tick_, .missed = i == 0 ? missed : 0});
      if (on) reading_->count(50'000);
      faster_.push_back(on);
      faster += on ? 1 : 0;
      counts_->begin();
      for (std::size_t channel = 0; channel < counted_.size(); ++channel) {
        counted_[channel] += 50 + tick_ / 10 % 5 + more;
        counts_->set(static_cast<std::int32_t>(channel), counted_[channel]);
      }
      counts_->commit();
    }
    return faster;
  }
  void close() { reading_->close(); }
  /// Whether probes were read faster, tick by tick.
  [[nodiscard]] const std::vector<bool>& faster() const { return faster_; }

 private:
  KernelTree& fs_;
  TraceSink sink_;
  Family* counts_;
  std::optional<FasterReading> reading_;
  std::int64_t tick_ = 9;
  std::array<std::int64_t, 12> counted_{};
  std::vector<bool> faster_;
};

TEST(FasterReading, BeginsAfterThreeUnusualSeconds) {
  const TestHost host;
  KernelTree fs(host.root());
  Node node(fs);
  EXPECT_EQ(node.live(200), 0);
  EXPECT_EQ(node.live(3, 1000), 0);
  EXPECT_EQ(node.live(3, 1000), 30);
  EXPECT_EQ(node.live(60), 10) << "the last second of it is known when it is over";
}

TEST(FasterReading, IsOffInStepsOfTheProgramThatTakeASecondOrTwo) {
  const TestHost host;
  KernelTree fs(host.root());
  Node node(fs);
  EXPECT_EQ(node.live(200), 0);
  std::int64_t more = 1000;
  for (const int seconds : {1, 2, 1, 2}) {
    EXPECT_EQ(node.live(seconds, more), 0);
    EXPECT_EQ(node.live(10), 0);
    more *= 4;  // what was seen is usual
  }
  EXPECT_EQ(node.live(4, more), 10) << "and on in a longer one";
}

TEST(FasterReading, IsOnInADisturbanceThatIsLikeTheStartOfTheJob) {
  const TestHost host;
  KernelTree fs(host.root());
  Node node(fs);
  EXPECT_EQ(node.live(5, 1000), 0);
  EXPECT_EQ(node.live(95), 0);
  EXPECT_EQ(node.live(4, 1000), 10);
}

TEST(FasterReading, IsOffWhereNothingWasLearntAndWhereTicksAreMissed) {
  const TestHost host;
  KernelTree fs(host.root());
  Node fresh(fs);
  EXPECT_EQ(fresh.live(15) + fresh.live(10, 1000), 0);
  Node node(fs);
  EXPECT_EQ(node.live(200), 0);
  EXPECT_EQ(node.live(3, 1000), 0);
  EXPECT_EQ(node.live(1, 1000, 1), 0);
  EXPECT_EQ(node.live(1, 1000), 10);
}

TEST(FasterReading, IsMarkedInTheTraceWithItsLengthAndItsCost) {
  const TestHost host;
  KernelTree fs(host.root());
  const TemporaryDirectory folder;
  const auto path = folder.path() / "n01.h5";
  TraceWriter writer(path, sample_header(), {.waits = true});
  Node node(fs, &writer);
  node.live(200);
  node.live(6, 1000);
  node.live(20);
  node.live(5, 5000);
  node.close();
  writer.close();
  std::vector<std::string> told;
  for (const Event& event : TraceReader(path).events()) {
    told.push_back(std::to_string(event.time_ns / (kSecond / 10)) + ' ' + event.object + ' ' + event.code + ' ' +
                   event.text);
  }
  EXPECT_EQ(told, (std::vector<std::string>{"2040 reveal faster_begin python tcp_peers",
                                            "2080 reveal faster_end 4.0 s, 40 additional readings, 2.0 ms",
                                            "2300 reveal faster_begin python tcp_peers",
                                            "2319 reveal faster_end 1.9 s, 20 additional readings, 1.0 ms"}));
}

TEST(FasterReading, IsReplayedAsItWasRecorded) {
  const TestHost host;
  const auto recording = host.root() / "recording";
  std::vector<bool> recorded;
  {
    KernelTree fs(host.root());
    fs.record_to(recording);
    Node node(fs);
    node.live(100);
    node.live(6, 1000);
    node.live(20);
    fs.end_recording();
    recorded = node.faster();
  }
  ASSERT_EQ(std::count(recorded.begin(), recorded.end(), true), 40);
  KernelTree fs(recording);
  TraceSink sink;  // without the counters that were unusual
  FasterReading reading(fs, sink, "python", 10, TickTime{});
  std::vector<bool> replayed;
  while (const auto time = fs.next_tick()) {
    replayed.push_back(reading.look({.time = *time, .number = time->monotonic_ns * 10 / kSecond}));
  }
  EXPECT_EQ(replayed, recorded);
}

}  // namespace
}  // namespace reveal::tests::faster_reading_test
