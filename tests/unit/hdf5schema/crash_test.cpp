// The readable part of a trace when the collector is killed, and of a damaged copy.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <random>

#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/rewrite.h"
#include "hdf5schema/trace_reader.h"
#include "hdf5schema/trace_writer.h"
#include "sample_trace.h"

namespace reveal::tests::crash_test {
namespace {

constexpr std::int64_t kTick = 100'000'000;
constexpr std::int64_t kBegin = 5'000'000'000'000;

/// Known values: channel c counts up by c + 1 a tick. Channels join at ticks 150 and 450.
void record(TraceWriter& writer, int ticks, std::atomic<std::int64_t>* flushed) {
  const auto counters = writer.add_family(counter_family());
  const auto gauges = writer.add_family(gauge_family("storage/queue"));
  for (int i = 0; i < 4; ++i) writer.add_channel(counters, {.metric = "c" + std::to_string(i)});
  writer.add_channel(gauges, {.metric = "depth"});
  writer.set_snapshot({{"kernel.release", "6.1.0"}}, "<topology/>");
  writer.start();
  std::vector<std::int64_t> values(4);
  for (int tick = 0; tick < ticks; ++tick) {
    if (tick == 150 || tick == 450) {
      for (int i = 0; i < 15; ++i) writer.add_channel(counters, {.metric = "late", .instance = std::to_string(i)});
      values.resize(values.size() + 15);
    }
    for (std::size_t c = 0; c < values.size(); ++c) values[c] = static_cast<std::int64_t>(c + 1) * tick;
    const std::int64_t time = kBegin + tick * kTick;
    writer.append_row(counters, time, values);
    const std::int64_t depth = tick % 7;
    writer.append_row(gauges, time, std::span(&depth, 1));
    if (tick % 100 == 0) writer.append_event({time, "test", "hundred", std::to_string(tick)});
    if (flushed != nullptr) *flushed = writer.status().flushed_until_ns;
    if (tick % 100 == 99 && tick + 1 < ticks) wait_until_flushed(writer, time);
  }
}

/// Reads everything; every value read must have been written.
std::size_t check_values(const TraceReader& reader) {
  std::size_t most = 0;
  static_cast<void>(reader.events());
  static_cast<void>(reader.clocks());
  static_cast<void>(reader.coverage());
  static_cast<void>(reader.snapshot_begin());
  static_cast<void>(reader.topology_xml());
  for (const TraceReader::Family& family : reader.families()) {
    const std::size_t rows = family.time_ns.size();
    most = std::max(most, rows);
    const std::vector<double> values = reader.read(family);
    for (std::size_t row = 0; row < rows; ++row) {
      if (family.time_ns[row] != kBegin + static_cast<std::int64_t>(row) * kTick) throw std::logic_error("wrong time");
      for (std::size_t c = 0; c < family.channels.size(); ++c) {
        const double value = values[c * rows + row];
        const double expected = family.spec.kind == Kind::counter ? static_cast<double>(c + 1) : row % 7;
        if (value == value && value != expected) throw std::logic_error("wrong value");
      }
    }
    if (family.spec.kind != Kind::counter) continue;
    const std::vector<std::int64_t> absolute = reader.read_absolute(family);
    for (std::size_t i = 0; i < absolute.size(); ++i) {
      const auto expected = static_cast<std::int64_t>((i / rows + 1) * (i % rows));
      if (absolute[i] != kMissing && absolute[i] != expected) throw std::logic_error("wrong absolute value");
    }
  }
  return most;
}

struct Killed {
  std::filesystem::path part;
  std::int64_t flushed_until = 0;
};

Killed record_and_die(const std::filesystem::path& directory, unsigned seed) {
  void* shared =
      ::mmap(nullptr, sizeof(std::atomic<std::int64_t>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* flushed = new (shared) std::atomic<std::int64_t>(0);
  const auto path = directory / ("kill" + std::to_string(seed) + ".h5");
  fork_child([&] {
    std::mt19937 random(seed);
    TraceWriter writer(path, sample_header());
    record(writer, 100 * std::uniform_int_distribution(1, 12)(random), flushed);
    // The last chunk was just handed over: die somewhere in its write.
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::microseconds(std::uniform_int_distribution(0, 4000)(random));
    while (std::chrono::steady_clock::now() < end) *flushed = writer.status().flushed_until_ns;
    return ::kill(::getpid(), SIGKILL);
  }).wait();
  Killed killed{path.string() + ".part", *flushed};
  ::munmap(shared, sizeof(std::atomic<std::int64_t>));
  return killed;
}

TEST(Crash, LosesAtMostOneFlushWhenKilled) {
  const TemporaryDirectory directory;
  const char* asked = std::getenv("REVEAL_KILL_TRIALS");
  const unsigned trials = asked == nullptr ? 20 : static_cast<unsigned>(std::atoi(asked));
  for (unsigned seed = 0; seed < trials; ++seed) {
    const Killed killed = record_and_die(directory.path(), seed);
    const TraceReader reader(killed.part);
    EXPECT_FALSE(reader.complete());
    ASSERT_EQ(reader.families().size(), 2U) << reader.damages().front().text();
    EXPECT_NO_THROW(check_values(reader)) << seed;
    for (const TraceReader::Family& family : reader.families()) {
      const std::int64_t last = family.time_ns.empty() ? 0 : family.time_ns.back();
      EXPECT_GE(last, killed.flushed_until) << seed;
    }
  }
}

TEST(Crash, RecoversIntoACleanFile) {
  const TemporaryDirectory directory;
  const Killed killed = record_and_die(directory.path(), 6);
  const auto to = directory.path() / "recovered.h5";
  const TraceReader part(killed.part);
  const double seconds = recover(killed.part, to);
  const TraceReader whole(to);
  EXPECT_FALSE(whole.complete());
  ASSERT_EQ(whole.families().size(), part.families().size());
  for (std::size_t i = 0; i < whole.families().size(); ++i) {
    const TraceReader::Family& family = whole.families()[i];
    EXPECT_TRUE(std::ranges::equal(family.time_ns, part.families()[i].time_ns));
    EXPECT_EQ(family.channels.size(), part.families()[i].channels.size());
    EXPECT_EQ(whole.read_stored(family), part.read_stored(part.families()[i]));
    EXPECT_EQ(whole.read_absolute(family), part.read_absolute(part.families()[i]));
    EXPECT_DOUBLE_EQ(seconds, static_cast<double>(family.time_ns.back() - family.time_ns.front()) / 1e9);
  }
  EXPECT_EQ(whole.events().size(), part.events().size());
  EXPECT_EQ(whole.header().job_id, "4711");
  EXPECT_EQ(whole.snapshot_begin(), part.snapshot_begin());
  EXPECT_THROW(recover(killed.part, to), Error);
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void put_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

struct Outcome {
  int read = 0;
  int refused = 0;
  std::size_t rows = 0;
};

/// Either the values as they were, or one line; anything else fails the test.
void try_to_read(const std::filesystem::path& path, Outcome& outcome) {
  try {
    const TraceReader reader(path);
    outcome.rows = std::max(outcome.rows, check_values(reader));
    ++outcome.read;
  } catch (const Error& error) {
    ++outcome.refused;
    const std::string line = error.what();
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    EXPECT_TRUE(line.starts_with(path.string())) << line;
  }
}

/// How many damaged copies: few in ctest, many by hand.
std::size_t trials(std::size_t otherwise) {
  const char* asked = std::getenv("REVEAL_DAMAGE_TRIALS");
  return asked == nullptr ? otherwise : static_cast<std::size_t>(std::atoll(asked));
}

class DamagedTrace : public ::testing::TestWithParam<bool> {
 protected:
  /// A closed trace, or the .part of a killed collector.
  void SetUp() override {
    if (GetParam()) {
      const auto path = directory_.path() / "closed.h5";
      TraceWriter writer(path, sample_header());
      record(writer, 600, nullptr);
      writer.close();
      bytes_ = bytes_of(path);
    } else {
      bytes_ = bytes_of(record_and_die(directory_.path(), 6).part);
    }
    ASSERT_GT(bytes_.size(), 10'000U);
  }

  TemporaryDirectory directory_;
  std::string bytes_;
};

TEST_P(DamagedTrace, IsReadOrRefusedWhereverItIsCut) {
  const auto path = directory_.path() / "cut.h5";
  Outcome outcome;
  const std::size_t count = trials(150);
  for (std::size_t i = 0; i < count; ++i) {
    put_bytes(path, bytes_.substr(0, bytes_.size() * i / count));
    EXPECT_NO_THROW(try_to_read(path, outcome)) << i;
  }
  RecordProperty("read", outcome.read);
  RecordProperty("refused", outcome.refused);
  std::printf("cut: %d read, %d refused, at most %zu rows\n", outcome.read, outcome.refused, outcome.rows);
}

TEST_P(DamagedTrace, IsReadOrRefusedWhateverBytesChange) {
  const auto path = directory_.path() / "flipped.h5";
  Outcome outcome;
  std::mt19937 random(1);
  const std::size_t count = trials(150);
  for (std::size_t i = 0; i < count; ++i) {
    std::string damaged = bytes_;
    for (std::size_t flips = 1 + random() % 3; flips > 0; --flips)
      damaged[random() % damaged.size()] ^= static_cast<char>(1 + random() % 255);
    put_bytes(path, damaged);
    EXPECT_NO_THROW(try_to_read(path, outcome)) << i;
  }
  std::printf("flipped: %d read, %d refused\n", outcome.read, outcome.refused);
}

INSTANTIATE_TEST_SUITE_P(Trace, DamagedTrace, ::testing::Values(true, false),
                         [](const auto& each) { return each.param ? "Closed" : "Part"; });

}  // namespace
}  // namespace reveal::tests::crash_test
