#include "core/probes/listing_pace.h"

#include <gtest/gtest.h>

namespace reveal::tests::listing_pace_test {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;

TEST(ListingPace, ListsOnEachLookWhereThatIsCheap) {
  ListingPace pace;
  EXPECT_FALSE(pace.is_apart());
  EXPECT_TRUE(pace.is_due(0));
  pace.note_listing(10 * kSecond, 8 * kMillisecond);  // every 2.7 s: the report can use that
  EXPECT_FALSE(pace.is_apart());
  EXPECT_TRUE(pace.is_due(11 * kSecond));
}

TEST(ListingPace, ListsSeldomWhereThatIsDear) {
  ListingPace pace;
  pace.note_listing(10 * kSecond, 180 * kMillisecond);
  EXPECT_TRUE(pace.is_apart());
  EXPECT_EQ(pace.every_ns(), 90 * kSecond) << "0.2 % of a core";
  EXPECT_EQ(pace.cost_ns(), 180 * kMillisecond);
  EXPECT_FALSE(pace.is_due(99 * kSecond));
  EXPECT_TRUE(pace.is_due(100 * kSecond));
  pace.note_listing(100 * kSecond, 2 * kMillisecond);
  EXPECT_FALSE(pace.is_apart()) << "the others have gone";
}

TEST(ListingPace, ListsAtLeastOnceInAnHour) {
  ListingPace pace;
  pace.note_listing(0, INT64_MAX);
  EXPECT_EQ(pace.every_ns(), 3600 * kSecond);
}

}  // namespace
}  // namespace reveal::tests::listing_pace_test
