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

/// Six pairs, the last two of them after the clock was set back by 40 s.
std::vector<ClockPair> set_back(std::int64_t error_before_ns, std::int64_t error_after_ns) {
  std::vector<ClockPair> clocks;
  for (std::int64_t i = 0; i < 6; ++i) {
    const bool before = i < 4;
    clocks.push_back({i * 10'000'000'000, i * 10'000'000'000 + kUtc - (before ? 0 : 40'000'000'000),
                      before ? error_before_ns : error_after_ns});
  }
  return clocks;
}

TEST(UtcOffset, IsThatOfTheClockOfWhichTheKernelKnowsThatItIsRight) {
  constexpr std::int64_t kUnknown = 16'000'000'000;
  constexpr std::int64_t kSynchronised = 1'000'000;
  EXPECT_EQ(utc_offset_ns(set_back(kUnknown, kSynchronised), {}, 0), kUtc - 40'000'000'000);  // it was corrected
  EXPECT_EQ(utc_offset_ns(set_back(kSynchronised, kUnknown), {}, 0), kUtc);                   // set by hand
  EXPECT_EQ(utc_offset_ns(set_back(kUnknown, kUnknown), {}, 0), kUtc);
  EXPECT_EQ(utc_offset_ns(set_back(0, 0), {}, 0), kUtc);
  EXPECT_EQ(utc_offset_ns(set_back(kSynchronised, kSynchronised / 2), {}, 0), kUtc);
}

TEST(UtcOffset, IsThatOfTheBeginWhereTheClockWasSetBetweenTwoPairs) {
  EXPECT_EQ(utc_offset_ns({{0, kUtc, 0}, {10, kUtc + 90'000'000'010, 0}}, {}, 0), kUtc);
  EXPECT_EQ(utc_offset_ns({{0, kUtc, 0}, {10, kUtc - 90'000'000'000, 0}}, {}, 0), kUtc);
}

}  // namespace
}  // namespace reveal::tests::utc_offset_test
