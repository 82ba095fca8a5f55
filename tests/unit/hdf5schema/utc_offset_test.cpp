#include "hdf5schema/utc_offset.h"

#include <gtest/gtest.h>

namespace reveal::tests::utc_offset_test {
namespace {

constexpr std::int64_t kUtc = 1'700'000'000'000'000'000;

TEST(UtcOffset, IsNotMovedByAWallClockThatSteps) {
  TraceHeader header;
  std::vector<ClockPair> clocks;
  for (std::int64_t i = 0; i < 9; ++i) {
    const std::int64_t stepped = i < 6 ? 0 : -40'000'000'000;
    clocks.push_back({i * 10'000'000'000, i * 10'000'000'000 + kUtc + stepped, 0});
  }
  EXPECT_EQ(utc_offset_ns(clocks, header, 0), kUtc);
  header.begin_utc_ns = kUtc + 7;
  EXPECT_EQ(utc_offset_ns({}, header, 5), kUtc + 2);
}

}  // namespace
}  // namespace reveal::tests::utc_offset_test
