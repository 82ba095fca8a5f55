#include "postproc/telemetry/last_collectives.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reveal::tests::last_collectives_test {
namespace {

std::vector<StandingProcess> read(const std::string& text) {
  return last_collectives(std::vector<Event>{{50, "rank1", "last_collectives", text}});
}

TEST(LastCollectives, AreReadFromEvents) {
  const auto found =
      read("comm=3 ranks=4 rank=2 id=7994 calls=812 begin=40 ncclAllReduce=4096x3,- ncclBroadcast=8 ncclAllReduce=0");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].process, "rank1");
  EXPECT_EQ(found[0].time_ns, 50);
  const std::vector<SizedCall> newest = {{"ncclAllReduce", 4096}, {"ncclAllReduce", 4096}, {"ncclAllReduce", 4096},
                                         {"ncclAllReduce", -1},   {"ncclBroadcast", 8},    {"ncclAllReduce", 0}};
  const LastCollectives expected{
      .order = 3, .ranks = 4, .rank = 2, .id = 7994, .calls = 812, .begin_ns = 40, .newest = newest};
  EXPECT_EQ(found[0].last, expected);
  const auto little = read("comm=0 calls=1 begin=9 MPI_Barrier=- (3 before it left out)");
  ASSERT_EQ(little.size(), 1U);
  EXPECT_EQ(little[0].last.ranks, 0);
  EXPECT_EQ(little[0].last.newest, (std::vector<SizedCall>{{"MPI_Barrier", -1}}));
}

TEST(LastCollectives, OfADamagedTraceAreLeftOut) {
  for (const char* text : {"", "comm=0", "comm=0 calls=1", "comm=-1 calls=1 begin=9", "comm=x calls=1 begin=9",
                           "calls= begin=9", "comm=0 ranks=4 rank=4 calls=1 begin=9", "comm=0 rank=2 calls=1 begin=9",
                           "comm=0 calls=1 begin=9 f=", "comm=0 calls=1 begin=9 f=x3", "comm=0 calls=1 begin=9 f=3x",
                           "comm=0 calls=1 begin=9 f=3,,4", "comm=0 calls=1 begin=9 =3",
                           "comm=0 calls=99999999999999999999 begin=9", "comm=0 calls=1 begin=9 f=-5"}) {
    EXPECT_TRUE(read(text).empty() || read(text)[0].last.newest.empty()) << text;
  }
  EXPECT_TRUE(read("comm=0 calls=1 begin=9 f=3,,4").empty());
  EXPECT_TRUE(last_collectives(std::vector<Event>{{50, "", "last_collectives", "comm=0 calls=1 begin=9"}}).empty());
  EXPECT_TRUE(last_collectives(std::vector<Event>{{50, "rank0", "call_error", "comm=0 calls=1 begin=9"}}).empty());
  for (const std::int64_t time : {INT64_MIN, INT64_MAX}) {
    EXPECT_TRUE(
        last_collectives(std::vector<Event>{{time, "rank0", "last_collectives", "comm=0 calls=1 begin=9"}}).empty());
  }
}

TEST(LastCollectives, AreTheNewestOfVeryMany) {
  std::vector<Event> events;
  for (std::int64_t i = 0; i < 5000; ++i) events.push_back({i, "rank1", "last_collectives", "comm=0 calls=1 begin=9"});
  const auto found = last_collectives(events);
  ASSERT_EQ(found.size(), 4096U);
  EXPECT_EQ(found.front().time_ns, 904);
  EXPECT_EQ(found.back().time_ns, 4999);
}

TEST(LastCollectives, TakeNoMoreThanACallerCanHold) {
  const auto found = read("comm=0 calls=1000 begin=9 f=8x999999999999");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].last.newest.size(), 64U);
  const auto named = read("comm=0 calls=1 begin=9 f\x1b[2J=8");
  ASSERT_EQ(named.size(), 1U);
  EXPECT_EQ(named[0].last.newest.at(0).function.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace reveal::tests::last_collectives_test
