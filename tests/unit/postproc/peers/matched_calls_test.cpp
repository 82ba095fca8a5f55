#include "postproc/peers/matched_calls.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace reveal::tests::matched_calls_test {
namespace {

/// One rank's part of a communicator, with the sizes of its newest calls of ncclAllReduce: the newest first.
LastCollectives part(std::int64_t id, std::int64_t ranks, std::int64_t rank, std::int64_t calls,
                     const std::vector<std::int64_t>& bytes = {}) {
  LastCollectives last{.ranks = ranks, .rank = rank, .id = id, .calls = calls, .newest = {}};
  for (const std::int64_t each : bytes) last.newest.push_back({"ncclAllReduce", each});
  return last;
}

class Ranks {
 public:
  explicit Ranks(std::vector<std::vector<LastCollectives>> communicators) {
    for (auto& each : communicators) {
      quiet_.emplace_back();
      quiet_.back().communicators = std::move(each);
    }
    for (const QuietTime& each : quiet_) all.push_back(&each);
  }
  std::vector<const QuietTime*> all;

 private:
  std::deque<QuietTime> quiet_;
};

using Indices = std::vector<std::size_t>;

TEST(MatchedCalls, NameTheRankForWhichAChainOfRanksWaits) {
  // Rank 2 waits for rank 3, and the others wait for rank 2: only rank 3 waits for nobody.
  const Ranks ranks({{part(1, 3, 0, 10, {8})},
                     {part(1, 3, 1, 10, {8})},
                     {part(1, 3, 2, 9), part(2, 2, 0, 5, {64})},
                     {part(2, 2, 1, 4)}});
  const auto matched = match_numbered_calls(ranks.all);
  ASSERT_TRUE(matched);
  EXPECT_EQ(matched->absent, Indices{3});
  EXPECT_EQ(matched->present, Indices{2});
  EXPECT_EQ(matched->calls, (std::vector<std::int64_t>{-1, -1, 5, 4}));
  EXPECT_FALSE(matched->others);
  EXPECT_EQ(details_of(matched->call.value()), " (64 bytes, call 5 on communicator 1 with 2 ranks)");
}

TEST(MatchedCalls, NameNobodyInACircle) {
  const Ranks ranks({{part(1, 2, 0, 10), part(2, 2, 0, 4)}, {part(1, 2, 1, 9), part(2, 2, 1, 5)}});
  EXPECT_FALSE(match_numbered_calls(ranks.all));
}

TEST(MatchedCalls, NameNoRankThatMayWaitForOneThatIsNotKnown) {
  const auto matched_with = [](std::int64_t id) {
    return match_numbered_calls(Ranks({{part(1, 2, 0, 10)}, {part(1, 2, 1, 9), part(id, 2, 0, 5)}}).all);
  };
  EXPECT_FALSE(matched_with(2)) << "rank 1 may wait for the other rank of communicator 2";
  EXPECT_TRUE(matched_with(0));
}

TEST(MatchedCalls, HaveDifferentSizesOnlyOnACommunicatorOfAllRanks) {
  const auto matched_with = [](std::int64_t ranks) {
    return match_sizes(Ranks({{part(0, ranks, 0, 4, {8, 8, 8, 8})}, {part(0, ranks, ranks / 2, 4, {9, 9, 9, 9})}}).all);
  };
  EXPECT_TRUE(matched_with(2));
  EXPECT_FALSE(matched_with(3));
  EXPECT_FALSE(matched_with(0)) << "they may be those of a split communicator";
}

TEST(MatchedCalls, SayNothingOfACallThatWasTooLongAgo) {
  const Ranks ranks({{part(1, 2, 0, 40, {8, 8})}, {part(1, 2, 1, 9, {8})}});
  const auto matched = match_numbered_calls(ranks.all);
  ASSERT_TRUE(matched);
  EXPECT_EQ(matched->absent, Indices{1});
  EXPECT_FALSE(matched->call);
}

TEST(MatchedCalls, TellTheFirstCallThatDiffers) {
  // Ranks go on behind it, as with NCCL, whose calls return at once.
  const Ranks ranks({{part(1, 3, 0, 10, {8, 16, 8})}, {part(1, 3, 1, 9, {32, 8})}, {part(1, 3, 2, 9, {16, 8})}});
  const auto matched = match_numbered_calls(ranks.all);
  ASSERT_TRUE(matched);
  EXPECT_EQ(matched->present, (Indices{0, 2}));
  EXPECT_EQ(matched->absent, Indices{1});
  EXPECT_EQ(matched->call.value().bytes, 16);
  EXPECT_EQ(matched->others.value().bytes, 32);
  EXPECT_EQ(matched->others.value().number, 9);
}

TEST(MatchedCalls, DoNotMatchCommunicatorsThatDoNotFitTogether) {
  const std::vector<std::vector<LastCollectives>> all[] = {
      {{part(1, 2, 0, 10)}, {part(1, 3, 1, 9)}},                    // they have different sizes
      {{part(1, 3, 0, 10)}, {part(1, 3, 1, 9)}},                    // the third rank is not known
      {{part(1, 2, 0, 10)}, {part(1, 2, 0, 9)}},                    // the same rank twice
      {{part(1, 2, 0, 10), part(1, 2, 1, 9)}, {}},                  // both in one process
      {{part(1, 0, 0, 10)}, {part(1, 0, 0, 9)}},                    // nothing is known of them
      {{part(1, 2, 0, 10)}, {part(2, 2, 1, 9)}},                    // others
      {{part(0, 2, 0, 10)}, {part(0, 2, 1, 9)}},                    // no ids: counted from different times on
      {{part(1, 2, 0, 10)}, {part(1, 2, 1, INT64_MAX)}},            // damaged
      {{part(1, 2, 0, 1, {8, 8, 8})}, {part(1, 2, 1, 2, {8, 8})}},  // more calls than it made
  };
  for (const auto& each : all) EXPECT_FALSE(match_numbered_calls(Ranks(each).all));
  EXPECT_FALSE(match_numbered_calls({}));
  EXPECT_FALSE(match_sizes({}));
}

TEST(MatchedCalls, HaveACommonCallOnlyWhereAllAgree) {
  const Indices both = {0, 1};
  const Ranks same({{part(7, 2, 0, 3, {8})}, {part(7, 2, 1, 3, {8})}});
  EXPECT_EQ(details_of(common_call(same.all, both).value()), " (8 bytes, call 3 on communicator 1 with 2 ranks)");
  const Ranks unnumbered({{part(0, 0, 0, 3, {-1})}, {part(0, 0, 0, 5, {-1})}});
  EXPECT_EQ(details_of(common_call(unnumbered.all, both).value()), " (on communicator 1)");
  EXPECT_FALSE(common_call(Ranks({{part(0, 2, 0, 3, {8})}, {part(0, 2, 1, 3, {9})}}).all, both));
  EXPECT_FALSE(common_call(Ranks({{part(0, 2, 0, 3, {8})}, {}}).all, both));
  EXPECT_FALSE(common_call(same.all, {}));
  EXPECT_TRUE(are_all_members(same.all, both));
  EXPECT_FALSE(are_all_members(same.all, {}));
  EXPECT_FALSE(are_all_members(unnumbered.all, both)) << "their number is not known";
  EXPECT_FALSE(are_all_members(Ranks({{part(0, 3, 0, 3, {8})}, {part(0, 3, 1, 3, {8})}}).all, both))
      << "one is missing";
  EXPECT_FALSE(are_all_members(Ranks({{part(0, 2, 0, 3, {8})}, {part(0, 2, 0, 3, {8})}}).all, both))
      << "two communicators of the same size";
}

}  // namespace
}  // namespace reveal::tests::matched_calls_test
