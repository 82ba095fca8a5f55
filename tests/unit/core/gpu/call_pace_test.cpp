#include "core/gpu/call_pace.h"

#include <gtest/gtest.h>

#include <string>

namespace reveal::tests::call_pace_test {
namespace {

using std::chrono::milliseconds;

/// Requests in which a call is made ('x') that takes so long; '.': it is left out.
std::string uses(CallPace& pace, std::uint64_t& request, int count, milliseconds time) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    const bool due = pace.is_due(++request);
    if (due) pace.took(time);
    text += due ? 'x' : '.';
  }
  return text;
}

TEST(CallPace, HalvesTheUseOfASlowCallDownToAFloor) {
  CallPace pace;
  std::uint64_t request = 0;
  EXPECT_EQ(uses(pace, request, 5, milliseconds(50)), "xxxxx") << "not slow yet";
  EXPECT_EQ(uses(pace, request, 8, milliseconds(51)), "x.x...x.");
  EXPECT_EQ(uses(pace, request, 6, milliseconds(51)), "......");
  EXPECT_EQ(uses(pace, request, 33, milliseconds(51)), "x...............x...............x");
  EXPECT_EQ(pace.every(), 16);
  EXPECT_EQ(pace.longest(), milliseconds(51));
}

TEST(CallPace, ReturnsToEachRequestWhenTheCallIsFastAgain) {
  CallPace pace;
  std::uint64_t request = 0;
  EXPECT_EQ(uses(pace, request, 4, milliseconds(200)), "x.x.");
  EXPECT_EQ(uses(pace, request, 8, milliseconds(1)), "..x.xxxx");
  EXPECT_EQ(pace.every(), 1);
}

TEST(CallPace, IsThatOfTheSlowestOfTheGpus) {
  CallPace pace;
  EXPECT_TRUE(pace.is_due(1));
  pace.took(milliseconds(90));
  EXPECT_TRUE(pace.is_due(1)) << "the next GPU of the same request";
  pace.took(milliseconds(1));
  EXPECT_FALSE(pace.is_due(2));
  EXPECT_FALSE(pace.is_due(2));
  EXPECT_TRUE(pace.is_due(3));
}

}  // namespace
}  // namespace reveal::tests::call_pace_test
