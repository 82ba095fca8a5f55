// What is compared between windows stays the same where the collector read faster at times.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "hdf5schema/trace_reader.h"
#include "postproc/telemetry/load.h"
#include "postproc/telemetry/row_store.h"
#include "postproc/telemetry/trace_stream.h"
#include "tests/unit/hdf5schema/sample_trace.h"

namespace reveal::tests::faster_rows_test {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kTenth = 100'000'000;

FamilySpec peers(FamilySpec spec, const char* path) {
  spec.path = path;
  spec.period = 1s;
  spec.faster = 100ms;
  spec.clock = "tcp_peers";
  return spec;
}

std::int64_t count_at(std::int64_t tenth) {
  return tenth * 7 + tenth * tenth % 11;
}

/// Two minutes at ten ticks a second. A counter and a level of a slow probe have a row each second and, from 50 s to 60
/// s if it is read faster, each tick.
void write_trace(const std::filesystem::path& path, bool faster) {
  TraceHeader header = sample_header();
  header.begin_utc_ns = 0;
  TraceWriter writer(path, header, {.waits = true});
  const auto tick = writer.add_family(counter_family("cpu/tick"));
  const auto counter = writer.add_family(peers(counter_family(), "network/peer_segments"));
  const auto level = writer.add_family(peers(gauge_family(), "network/peer_windows"));
  for (const auto family : {tick, counter, level}) writer.add_channel(family, {.metric = "m"});
  writer.start();
  writer.append_clock({0, 0, 0});
  for (std::int64_t tenth = 10; tenth <= 1200; ++tenth) {
    const std::int64_t time = tenth * kTenth;
    writer.append_row(tick, time, std::span(&tenth, 1));
    if (tenth % 10 != 0 && !(faster && tenth >= 500 && tenth < 600)) continue;
    const std::int64_t counted = count_at(tenth);
    const std::int64_t held = tenth % 17;
    writer.append_row(counter, time, std::span(&counted, 1));
    writer.append_row(level, time, std::span(&held, 1));
  }
  writer.close();
}

void expect_equal(std::span<const double> left, std::span<const double> right) {
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (std::isnan(left[i]) && std::isnan(right[i])) continue;
    ASSERT_NEAR(left[i], right[i], 1e-9) << i;
  }
}

class FasterRows : public testing::Test {
 protected:
  void SetUp() override {
    write_trace(usual_, false);
    write_trace(faster_, true);
  }
  TemporaryDirectory directory_;
  std::filesystem::path usual_ = directory_.path() / "usual.h5";
  std::filesystem::path faster_ = directory_.path() / "faster.h5";
};

TEST_F(FasterRows, AreOneForEachPeriodOnTheGrid) {
  const Telemetry usual = load_trace(usual_).telemetry;
  const Telemetry faster = load_trace(faster_).telemetry;
  ASSERT_EQ(usual.channels.size(), 3U);
  ASSERT_EQ(faster.channels.size(), 3U);
  EXPECT_EQ(usual.samples, 1190U);
  expect_equal(usual.values, faster.values);
}

TEST_F(FasterRows, AreOneForEachPeriodOfATraceReadInPieces) {
  const Telemetry usual = load_trace(usual_).telemetry;
  TraceStream stream(faster_);
  for (std::size_t begin = 0; begin < usual.samples; begin += 70) {
    const Telemetry piece = stream.read(begin, std::min<std::size_t>(70, usual.samples - begin));
    for (std::size_t c = 0; c < usual.channels.size(); ++c)
      expect_equal(piece.series(c), usual.series(c).subspan(begin, piece.samples));
  }
}

TEST_F(FasterRows, AreOneForEachPeriodOfAJobThatRuns) {
  std::vector<Telemetry> seen;
  for (const auto& path : {usual_, faster_}) {
    const TraceReader reader(path);
    RowStore rows(300s);
    for (const TraceReader::Family& family : reader.families()) {
      const std::size_t place = rows.learn(family.spec, family.channels, 0);
      rows.append(place, family.time_ns, reader.read(family));
    }
    EXPECT_EQ(rows.newest_ns(), 1200 * kTenth);
    auto block = rows.block(reader.header(), 0);
    ASSERT_TRUE(block);
    seen.push_back(std::move(block->telemetry));
  }
  ASSERT_EQ(seen[0].channels.size(), seen[1].channels.size());
  expect_equal(seen[0].values, seen[1].values);
}

TEST(FasterRowsOfALateTick, AreNotMergedWithTheNext) {
  RowStore rows(300s);
  const std::size_t place = rows.learn(peers(gauge_family(), "network/peer_windows"), {{.metric = "m"}});
  const std::vector<std::int64_t> times = {20 * kTenth, 30 * kTenth + 60'000'000, 40 * kTenth};
  rows.append(place, times, std::vector<double>{1, 2, 6});
  EXPECT_EQ(rows.level("m", 10 * kTenth, 40 * kTenth), 3);
}

}  // namespace
}  // namespace reveal::tests::faster_rows_test
