#include "core/gpu/call_pace.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "core/gpu/gpu_rows.h"
#include "core/sampler/trace_sink.h"

namespace reveal::tests::call_pace_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// Requests in which a call is made ('x') that takes so long on the clock; '.': it is left out.
std::string uses(CallPaces& paces, int count, milliseconds time) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    paces.begin_request();
    CallPace& pace = paces.of("call");
    if (pace.is_due()) pace.took(time, {});
    text += pace.is_due() ? 'x' : '.';
  }
  return text;
}

TEST(CallPace, HalvesTheUseOfASlowCallDownToAFloor) {
  CallPaces paces(CallPaces::kUnlimited);
  EXPECT_EQ(uses(paces, 5, milliseconds(50)), "xxxxx") << "not slow yet";
  EXPECT_EQ(uses(paces, 8, milliseconds(51)), "x.x...x.");
  EXPECT_EQ(uses(paces, 6, milliseconds(51)), "......");
  EXPECT_EQ(uses(paces, 33, milliseconds(51)), "x...............x...............x");
  EXPECT_EQ(paces.of("call").longest(), milliseconds(51));
  paces.begin_request();
  EXPECT_EQ(paces.of("call").every(), 16);
}

TEST(CallPace, ReturnsToEachRequestWhenTheCallIsFastAgain) {
  CallPaces paces(CallPaces::kUnlimited);
  EXPECT_EQ(uses(paces, 4, milliseconds(200)), "x.x.");
  EXPECT_EQ(uses(paces, 8, milliseconds(1)), "..x.xxxx");
  EXPECT_EQ(paces.of("call").every(), 1);
}

TEST(CallPace, IsThatOfTheSlowestOfTheGpus) {
  CallPaces paces(CallPaces::kUnlimited);
  CallPace& pace = paces.of("call");
  pace.took(milliseconds(90), {});
  EXPECT_TRUE(pace.is_due()) << "the next GPU of the same request";
  pace.took(milliseconds(1), {});
  paces.begin_request();
  EXPECT_FALSE(pace.is_due());
  paces.begin_request();
  EXPECT_TRUE(pace.is_due());
}

/// Uses of each call by `count` requests, for 8 GPUs each with this processor time.
std::map<std::string_view, int> uses_by_cost(CallPaces& paces, int count,
                                             std::initializer_list<std::pair<std::string_view, microseconds>> calls) {
  constexpr int kGpus = 8;
  std::map<std::string_view, int> uses;
  for (int i = 0; i < count; ++i) {
    paces.begin_request();
    for (const auto& [name, cost] : calls) {
      CallPace& pace = paces.of(name);
      for (int gpu = 0; gpu < kGpus && pace.is_due(); ++gpu) pace.took({}, cost);
      uses[name] += pace.is_due() ? 1 : 0;
    }
  }
  return uses;
}

TEST(CallPace, MakesCheapCallsEachTimeAndDividesTheRestAmongTheDearOnes) {
  CallPaces paces(0.001);  // 10 ms for each request
  paces.set_period(seconds(10));
  // The cheap one takes 1.6 ms of them, so that the others have 2.8 ms each for 5.2, 7.6 and 31.2 ms.
  const auto uses = uses_by_cost(paces, 144,
                                 {{"cheap", microseconds(200)},
                                  {"dear", microseconds(650)},
                                  {"dearer", microseconds(950)},
                                  {"dearest", microseconds(3900)}});
  EXPECT_EQ(uses.at("cheap"), 144);  // all of them are made by the first two requests
  EXPECT_EQ(uses.at("dear"), 73);
  EXPECT_EQ(uses.at("dearer"), 49);
  EXPECT_EQ(uses.at("dearest"), 13);
}

TEST(CallPace, RestsForSixteenRequestsAtMost) {
  CallPaces paces(0.0001);
  paces.set_period(seconds(10));
  EXPECT_EQ(uses_by_cost(paces, 33, {{"dear", milliseconds(40)}}).at("dear"), 3);
}

// The analysis spreads a counter over so long a gap, and over no longer one.
TEST(CallPace, IsStatedByTheFamiliesOfTheTrace) {
  constexpr FamilyTable kTables[] = {{.path = "gpu/fast"}, {.path = "gpu/slow"}};
  TraceSink sink;
  GpuRows(kTables).open(sink, "gpu/slow", seconds(1), seconds(10));
  EXPECT_EQ(sink.find("gpu/fast")->spec().longest_rest, seconds(20));
  EXPECT_EQ(sink.find("gpu/slow")->spec().longest_rest, seconds(200));
  EXPECT_GT(CallPace::kLongestGap, CallPace::kLongestRest);
}

TEST(CallPace, MakesAllCallsEachTimeThatFitIntoTheShare) {
  CallPaces paces(0.001);
  paces.set_period(seconds(10));
  const auto uses = uses_by_cost(paces, 20, {{"one", microseconds(600)}, {"other", microseconds(600)}});
  EXPECT_EQ(uses.at("one"), 20) << "4.8 of 10 ms";
  EXPECT_EQ(uses.at("other"), 20);
  paces.set_period(seconds(1));
  EXPECT_LT(uses_by_cost(paces, 20, {{"one", microseconds(600)}, {"other", microseconds(600)}}).at("one"), 4);
}

}  // namespace
}  // namespace reveal::tests::call_pace_test
