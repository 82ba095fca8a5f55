// Intervals that stand in NODE.status.json.
#include "core/sampler/usual_ranges.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/sampler/status_file.h"
#include "hdf5schema/basics/clocks.h"
#include "tests/unit/core/test_host.h"
#include "tests/unit/document_words.h"
#include "tests/unit/hdf5schema/sample_trace.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::usual_ranges_test {
namespace {

constexpr std::int64_t kBegin = 1'700'000'000LL * kSecond;
constexpr std::chrono::milliseconds kTenth{100};
constexpr MetricHelp kLevelHelp[] = {{"test.level", "A level."}};
constexpr MetricHelp kCountHelp[] = {{"test.count", "A counter."}};
constexpr FamilyTable kLevels{"memory/levels",   Kind::gauge,   Unit::count,    Scope::node,
                              Subsystem::memory, "Some levels", "/proc/levels", kLevelHelp};
constexpr FamilyTable kCounts{"cpu/counts",   Kind::counter,   Unit::count,    Scope::node,
                              Subsystem::cpu, "Some counters", "/proc/counts", kCountHelp};

/// Ten levels that stay, and ten counters whose rates take five values in turn, each for a window of three seconds.
class Node {
 public:
  explicit Node(const std::string& name = "c") {
    for (int i = 0; i < 10; ++i) {
      levels_.add("test.level", name + std::to_string(i));
      counts_.add("test.count", name + std::to_string(i));
    }
  }

  /// So many seconds in which the rates of the first counters are higher by so much.
  void live(int seconds, std::int64_t more = 0, std::int32_t higher = 10) {
    for (int i = 0; i < seconds; ++i) {
      ++second_;
      const std::int64_t value = 10 * ((second_ + 1) / 3 % 5);
      levels_.begin();
      counts_.begin();
      for (std::int32_t channel = 0; channel < 10; ++channel) {
        std::int64_t& count = counted_[static_cast<std::size_t>(channel)];
        count += 500 + value + (channel < higher ? more : 0);
        levels_.set(channel, level_ + value);
        counts_.set(channel, count);
      }
      ranges_.look({second_ * kSecond, kBegin + clock_set_by_ + second_ * kSecond});
    }
  }
  void shift_levels() { level_ *= 10; }
  void set_clock(std::int64_t by_ns) { clock_set_by_ += by_ns; }
  [[nodiscard]] const UsualRanges& ranges() const { return ranges_; }
  [[nodiscard]] UsualRanges::Closed closed() const { return ranges_.closed(); }

 private:
  TraceSink sink_;
  Family& levels_ = sink_.add_family(kLevels, kTenth);
  Family& counts_ = sink_.add_family(kCounts, kTenth);
  UsualRanges ranges_{sink_};
  std::int64_t second_ = 0;
  std::int64_t level_ = 1000;
  std::int64_t clock_set_by_ = 0;
  std::array<std::int64_t, 10> counted_{};
};

TEST(UsualRanges, ListAnIntervalUnlikeAllBeforeOnceItIsOver) {
  Node node;
  node.live(91);
  node.live(12, 1000);
  EXPECT_TRUE(node.closed().newest.empty());
  node.live(3);
  const UsualRanges::Closed closed = node.closed();
  ASSERT_EQ(closed.newest.size(), 1U);
  const UnusualInterval& interval = closed.newest[0];
  EXPECT_EQ(interval.begin_utc_ns, kBegin + 91 * kSecond);
  EXPECT_EQ(interval.end_utc_ns, kBegin + 103 * kSecond);
  EXPECT_EQ(interval.channels, 10);
  EXPECT_EQ(interval.of_channels, 10);
  EXPECT_STREQ(interval.farthest.data(), "test.count/c0");
  EXPECT_DOUBLE_EQ(interval.ranges, 25);  // 1,540 per second in the fourth window; the usual range is 500 to 540
  EXPECT_EQ(closed.left_out, 0);
}

TEST(UsualRanges, AnIntervalLastsAsLongWhenTheClockIsSetBackInIt) {
  Node node;
  node.live(91);
  node.live(6, 1000);
  node.set_clock(-3600 * kSecond);
  node.live(6, 1000);
  node.live(3);
  ASSERT_EQ(node.closed().newest.size(), 1U);
  EXPECT_EQ(node.closed().newest[0].begin_utc_ns, kBegin + (91 - 3600) * kSecond);
  EXPECT_EQ(node.closed().newest[0].end_utc_ns, kBegin + (103 - 3600) * kSecond);
}

TEST(UsualRanges, RatesThatWereSeenAreUsual) {
  Node node;
  node.live(91);
  for (int i = 0; i < 3; ++i) {
    node.live(12, 1000);
    node.live(12);
  }
  EXPECT_EQ(node.closed().newest.size(), 1U);
}

TEST(UsualRanges, TheStartOfAProgramWidensNoRange) {
  Node node;
  node.live(12, 5000);
  node.live(91);
  node.live(12, 1000);
  node.live(3);
  ASSERT_EQ(node.closed().newest.size(), 1U);
  EXPECT_EQ(node.closed().newest[0].begin_utc_ns, kBegin + 103 * kSecond);
  Node slower;
  slower.live(24, 5000);
  slower.live(79);
  slower.live(12, 1000);
  slower.live(3);
  EXPECT_TRUE(slower.closed().newest.empty()) << "what lasts longer than a start is usual";
}

TEST(UsualRanges, ARateLittleOutsideItsRangeIsNotUnusual) {
  for (const bool unusual : {false, true}) {
    Node node;
    node.live(91);
    node.live(12, unusual ? 74 : 26);  // 526 to 566, and 574 to 614; the range is 500 to 540
    node.live(3);
    EXPECT_EQ(node.closed().newest.size(), unusual ? 1U : 0U);
  }
}

TEST(UsualRanges, AChangeThatLastsIsTheNextPhaseOfTheProgram) {
  Node node;
  node.live(91);
  node.live(150, 1000);
  node.live(30);
  EXPECT_TRUE(node.closed().newest.empty());
}

TEST(UsualRanges, ALevelThatStaysWhereItIsHidesNoInterval) {
  Node node;
  node.live(91);
  node.shift_levels();
  node.live(12);
  node.live(12, 1000);
  node.live(3);
  ASSERT_EQ(node.closed().newest.size(), 1U);
  EXPECT_EQ(node.closed().newest[0].begin_utc_ns, kBegin + 103 * kSecond);
}

TEST(UsualRanges, AnIntervalIsOverWhenMostCountersWithWhichItBeganAreBack) {
  Node node;
  node.live(91);
  node.live(9, 1000);
  node.live(60, 1000, 4);
  ASSERT_EQ(node.closed().newest.size(), 1U);
  EXPECT_EQ(node.closed().newest[0].end_utc_ns, kBegin + 100 * kSecond);
}

TEST(UsualRanges, AFewCountersAreNoInterval) {
  Node node;
  node.live(91);
  node.live(12, 1000, 5);
  node.live(12);
  EXPECT_TRUE(node.closed().newest.empty());
}

TEST(UsualRanges, ASingleWindowIsNoInterval) {
  Node node;
  node.live(91);
  node.live(3, 1000);
  node.live(12);
  EXPECT_TRUE(node.closed().newest.empty());
}

TEST(UsualRanges, ListNothingInTheFirstMinute) {
  Node node;
  node.live(40);
  node.live(12, 1000);
  node.live(30);
  EXPECT_TRUE(node.closed().newest.empty());
}

TEST(UsualRanges, MissingValuesAndCountersThatFellAreNoChange) {
  TraceSink sink;
  Family& levels = sink.add_family(kLevels, kTenth);
  Family& counts = sink.add_family(kCounts, kTenth);
  for (int i = 0; i < 10; ++i) {
    levels.add("test.level", std::to_string(i));
    counts.add("test.count", std::to_string(i));
  }
  UsualRanges ranges(sink);
  for (std::int64_t second = 1; second < 150; ++second) {
    levels.begin();
    counts.begin();
    for (std::int32_t i = 0; i < 10; ++i) {
      if (second < 91) levels.set(i, second / 3 % 2);
      if (second < 91) counts.set(i, 1'000'000 + 100 * second + second / 3 % 2);
      if (second >= 120) counts.set(i, 1000 - second);
    }
    ranges.look({second * kSecond, kBegin + second * kSecond});
  }
  EXPECT_TRUE(ranges.closed().newest.empty());
}

TEST(UsualRanges, KeepTheNewestAndCountTheOthers) {
  Node node;
  node.live(91);
  for (int i = 0; i < 10; ++i) {
    node.live(12, std::int64_t{1000} << i);
    node.live(12);
  }
  const UsualRanges::Closed closed = node.closed();
  ASSERT_EQ(closed.newest.size(), 8U);
  EXPECT_EQ(closed.left_out, 2);
  EXPECT_EQ(closed.newest.front().begin_utc_ns, kBegin + (91 + 2 * 24) * kSecond);
  EXPECT_EQ(closed.newest.back().begin_utc_ns, kBegin + (91 + 9 * 24) * kSecond);
}

nlohmann::json status_of(const Node& node, std::size_t& bytes) {
  const TemporaryDirectory directory;
  TraceWriter writer(directory.path() / "n01.h5", sample_header());
  const Progress progress;
  const std::filesystem::path path = directory.path() / "n01.status.json";
  const StatusFile file(directory.path() / "n01.h5", "n01", progress, writer, node.ranges(),
                        std::chrono::milliseconds(1));
  while (!std::filesystem::exists(path)) std::this_thread::yield();
  std::ifstream stream(path);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  bytes = text.size();
  return nlohmann::json::parse(text);
}

TEST(StatusFile, ListsTheIntervalsThatAreOver) {
  Node node;
  node.live(91);
  node.live(12, 1000);
  node.live(3);
  std::size_t bytes = 0;
  const nlohmann::json status = status_of(node, bytes);
  EXPECT_EQ(status.at("closed_episodes"),
            nlohmann::json::parse(R"([{"begin_utc_ns":1700000091000000000,"end_utc_ns":1700000103000000000,
              "channels":10,"of_channels":10,"farthest":"test.count/c0","direction":"above","ranges":25.0}])"));
  EXPECT_EQ(status.at("closed_episodes_left_out"), 0);
}

TEST(StatusFile, GivesUpWhereTheDirectoryIsGoneAndWhereTheTraceIsFull) {
  const TemporaryDirectory directory;
  const Node node;
  const Progress progress;
  const std::filesystem::path moving = directory.path() / "moving";
  std::filesystem::create_directory(moving);
  TraceWriter writer(directory.path() / "n01.h5", sample_header());
  {
    const StatusFile file(moving / "n01.h5", "n01", progress, writer, node.ranges(), std::chrono::milliseconds(1));
    while (!std::filesystem::exists(moving / "n01.status.json")) std::this_thread::yield();
    EXPECT_FALSE(file.hopeless());
    std::filesystem::rename(moving, directory.path() / "moved");
    while (!file.hopeless()) std::this_thread::yield();
  }
  TraceWriter limited(directory.path() / "n02.h5", sample_header(), {.max_bytes = 1});
  const TraceWriter::FamilyId family = limited.add_family(gauge_family());
  limited.add_channel(family, {.metric = "mem.free"});
  limited.start();
  for (std::int64_t tick = 1; tick <= 100; ++tick)
    limited.append_row(family, tick * (kSecond / 10), std::span(&tick, 1));
  const StatusFile file(directory.path() / "n02.h5", "n02", progress, limited, node.ranges(),
                        std::chrono::milliseconds(1));
  while (!file.hopeless()) std::this_thread::yield();
}

TEST(StatusFile, WaitsForADirectoryThatCannotBeReadNow) {
  const TemporaryDirectory directory;
  EXPECT_FALSE(directory_is_gone(directory.path()));
  EXPECT_TRUE(directory_is_gone(directory.path() / "none"));
  std::ofstream(directory.path() / "file") << "x";
  EXPECT_TRUE(directory_is_gone(directory.path() / "file"));
  std::filesystem::create_symlink("circle", directory.path() / "circle");  // ELOOP, as EACCES and EIO for others
  EXPECT_FALSE(directory_is_gone(directory.path() / "circle"));
}

TEST(UsualRanges, NameTheProgramOfTheProcessThatWasFarthestOutside) {
  TestHost host;
  host.last_pid(510);
  host.process(500, 1, "root", 1, 0);
  host.process(510, 500, "python3", 100, 0);
  ProbeBench bench(host, "process", JobSource{.pid = 500});
  bench.sample();
  ASSERT_NE(bench.sampler().slots(), nullptr);
  constexpr FamilyTable kOfProcesses{"process/counts",   Kind::counter,   Unit::count,    Scope::process,
                                     Subsystem::process, "Some counters", "/proc/counts", kCountHelp};
  const auto seen = [&](const char* place, const FamilyTable& table) {
    TraceSink sink;
    Family& counts = sink.add_family(table, kTenth);
    for (int i = 0; i < 10; ++i) counts.add("test.count", std::string(place) + "/" + std::to_string(i));
    UsualRanges ranges(sink);
    std::int64_t count = 0;
    for (std::int64_t second = 1; second < 120; ++second) {
      count += 500 + 10 * (second / 3 % 5) + (second > 91 && second < 104 ? 1000 : 0);
      counts.begin();
      for (std::int32_t i = 0; i < 10; ++i) counts.set(i, count);
      ranges.look({second * kSecond, kBegin + second * kSecond}, bench.sampler().slots());
    }
    return std::string(ranges.closed().newest.at(0).program.data());
  };
  EXPECT_EQ(seen("slot1", kOfProcesses), "python3");
  EXPECT_EQ(seen("slot7", kOfProcesses), "") << "it has no process";
  EXPECT_EQ(seen("slot1", kCounts), "") << "a disk, for example";
}

TEST(StatusFile, StaysBelowFourKilobytesWhateverTheChannelsAreCalled) {
  Node node(std::string(200, '\x01') + '\xff');
  node.live(91);
  for (int i = 0; i < 10; ++i) {
    node.live(12, std::int64_t{1000} << i);
    node.live(12);
  }
  std::size_t bytes = 0;
  const nlohmann::json status = status_of(node, bytes);
  EXPECT_LE(bytes, 4000U);
  ASSERT_EQ(status.at("closed_episodes").size(), 5U);
  EXPECT_EQ(status.at("closed_episodes_left_out"), 5);
  EXPECT_EQ(status.at("closed_episodes").back().at("begin_utc_ns"), kBegin + (91 + 9 * 24) * kSecond);
}

TEST(StatusFile, HasNoKeyThatItsDocumentDoesNotExplain) {
  Node node;
  node.live(91);
  node.live(12, 1000);
  node.live(3);
  std::size_t bytes = 0;
  std::set<std::string> keys;
  insert_keys(status_of(node, bytes), keys);
  EXPECT_TRUE(keys.contains("farthest"));
  keys.insert({"iterations_planned", "program"});
  const std::set<std::string> words = words_in_code("core/sampler/status.md");
  for (const std::string& key : keys) EXPECT_TRUE(words.contains(key)) << key;
}

}  // namespace
}  // namespace reveal::tests::usual_ranges_test
