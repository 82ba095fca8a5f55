// Calls matched by number, with times that are written down here.
#include "postproc/peers/lateness.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace reveal::tests::lateness_test {
namespace {

constexpr std::int64_t kUtc = 1'700'000'000'000'000'000;

/// Calls one after the other from `first` on, each a millisecond after the one before, and all of them `late` us.
CollectiveTrend trend(const std::string& rank, std::int64_t first, std::int64_t calls, std::int64_t late = 0) {
  CollectiveTrend made{.rank = rank, .function = "MPI_Bcast", .id = 5, .points = {}};
  made.first = first;
  made.last = first + calls - 1;
  made.begin_utc_ns = kUtc + first * 1'000'000 + late * 1000;
  for (std::int64_t call = 1; call < calls; ++call) made.points += call == 1 ? "1:1000" : " 1:1000";
  return made;
}

NodeRanks node(std::string_view name, const CollectiveHistory& history, double error = 0.0001,
               std::string_view boot = "") {
  return {.node = name, .boot_id = boot, .clock_error_seconds = error, .collectives = history};
}

TEST(Lateness, IsThatAgainstTheMiddleRankInTheSameCall) {
  const CollectiveHistory one{{trend("rank0", 1, 20), trend("rank1", 11, 20, 300)}};
  const CollectiveHistory other{{trend("rank2", 5, 20, -100), trend("rank3", 11, 20, 200)}};
  const NodeRanks nodes[] = {node("n1", one), node("n2", other)};
  const auto all = match_collectives(nodes, JobOutcome::not_known);
  ASSERT_EQ(all.size(), 1U);
  const MatchedCollectives& matched = all[0];
  EXPECT_EQ(matched.function, "MPI_Bcast");
  ASSERT_EQ(matched.calls(), 26U) << "half of the ranks are known from 5 to 30";
  EXPECT_EQ(matched.numbers.front(), 5);
  // From call 11 on all four are known, at -100, 0, 200 and 300: the middle one is at 0.
  const std::size_t at = 10;
  EXPECT_EQ(matched.numbers[at], 15);
  EXPECT_NEAR(matched.ranks[0].late[at], 0, 2e-6);
  EXPECT_NEAR(matched.ranks[1].late[at], 300e-6, 2e-6);
  EXPECT_NEAR(matched.ranks[2].late[at], -100e-6, 2e-6);
  EXPECT_NEAR(matched.ranks[3].late[at], 200e-6, 2e-6);
  EXPECT_NEAR(matched.ranks[1].gap[at], 1e-3, 2e-6);
  EXPECT_TRUE(std::isnan(matched.ranks[1].late[2]));
  EXPECT_TRUE(std::isnan(matched.ranks[1].gap[6])) << "its first call";
}

TEST(Lateness, MayBeWrongByTheClocksOfTwoNodes) {
  const CollectiveHistory one{{trend("rank0", 1, 20)}};
  const CollectiveHistory other{{trend("rank1", 1, 20)}};
  const auto error = [&](std::string_view boot) {
    const NodeRanks nodes[] = {node("n1", one, 0.001, "a"), node("n2", other, 0.002, boot)};
    return match_collectives(nodes, JobOutcome::not_known).at(0).ranks.at(0).clock_error;
  };
  EXPECT_DOUBLE_EQ(error("b"), 0.003);
  EXPECT_EQ(error("a"), 0) << "one kernel";
}

TEST(Lateness, IsNotKnownWhereCallsAreNotTheSame) {
  const auto matched = [](CollectiveTrend a, CollectiveTrend b) {
    const CollectiveHistory one{{std::move(a)}};
    const CollectiveHistory other{{std::move(b)}};
    const NodeRanks nodes[] = {node("n1", one), node("n2", other)};
    return match_collectives(nodes, JobOutcome::well).size();
  };
  CollectiveTrend plain = trend("rank1", 1, 20);
  EXPECT_EQ(matched(plain, plain), 1U);
  CollectiveTrend changed = plain;
  changed.id = 6;
  EXPECT_EQ(matched(plain, changed), 0U) << "another communicator";
  plain.id = changed.id = 0;
  EXPECT_EQ(matched(plain, changed), 1U);
  changed.communicator = 1;
  EXPECT_EQ(matched(plain, changed), 0U);
  plain.communicator = 1;
  EXPECT_EQ(matched(plain, changed), 0U) << "the second one of each process need not be the same";
  plain.ranks = changed.ranks = 2;
  EXPECT_EQ(matched(plain, changed), 1U);
  changed.last = 21;
  EXPECT_EQ(matched(plain, changed), 0U) << "one rank made a call more";
  plain.ended = changed.ended = true;
  EXPECT_EQ(matched(plain, changed), 1U);
  EXPECT_EQ(matched(trend("rank1", 1, 20), trend("rank1", 14, 20)), 0U) << "seven calls are too few";
  const CollectiveHistory twice{{trend("rank1", 1, 20), trend("rank1", 1, 20)}};
  const NodeRanks nodes[] = {node("n1", twice)};
  EXPECT_TRUE(match_collectives(nodes, JobOutcome::well).empty());
}

}  // namespace
}  // namespace reveal::tests::lateness_test
