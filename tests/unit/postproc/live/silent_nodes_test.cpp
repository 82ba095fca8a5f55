#include "postproc/live/silent_nodes.h"

#include <gtest/gtest.h>

#include "hdf5schema/basics/clocks.h"

namespace reveal::tests::silent_nodes_test {
namespace {

constexpr std::int64_t kNoon = 12 * 3600 * kSecond;

std::vector<HeardNode> job_of(int nodes) {
  std::vector<HeardNode> all;
  for (int i = 1; i <= nodes; ++i) all.push_back({"n" + std::to_string(i), false, kNoon + i * kSecond});
  return all;
}

std::vector<std::string> said(SilentNodes& silence, const std::vector<HeardNode>& nodes) {
  std::vector<std::string> all;
  for (const SilentNodes::Change& change : silence.look(nodes)) all.push_back(change.news + ": " + change.sentence);
  return all;
}

TEST(SilentNodes, AreNamedTogetherWithTheTimeOfTheFirst) {
  std::vector<HeardNode> nodes = job_of(9);
  EXPECT_EQ(silence_of(nodes), "");
  for (const std::size_t i : {4, 2, 3}) nodes[i].silent = true;
  EXPECT_EQ(silence_of(nodes), "nothing heard of n[3-5] since 12:00:03");
}

TEST(SilentNodes, OfDifferentTimesAreNamedApart) {
  std::vector<HeardNode> nodes = job_of(4);
  nodes[0] = {"n1", true, kNoon + 100 * kSecond};
  nodes[1].silent = nodes[2].silent = true;
  nodes[3] = {"n4", true, 0};
  EXPECT_EQ(silence_of(nodes), "nothing heard of n4 so far; of n[2-3] since 12:00:02; of n1 since 12:01:40");
}

TEST(SilentNodes, AreReportedOnceAndWhenTheyAreBack) {
  SilentNodes silence;
  std::vector<HeardNode> nodes = job_of(3);
  EXPECT_TRUE(said(silence, nodes).empty());
  nodes[1].silent = true;
  EXPECT_EQ(said(silence, nodes), std::vector<std::string>{"silent: nothing heard of n2 since 12:00:02"});
  EXPECT_TRUE(said(silence, nodes).empty());
  nodes[1].silent = false;
  nodes[2].silent = true;
  EXPECT_EQ(said(silence, nodes), (std::vector<std::string>{"silent: nothing heard of n3 since 12:00:03",
                                                            "heard_again: rows come again from n2"}));
}

TEST(ReplacedTraces, AreThoseOfKilledCollectorsOnceTheNextOneSendsRows) {
  std::vector<FollowedTrace> traces = {{"n1", true, 50}, {"n2", false, 70}, {"n1", false, 0}, {"n3", true, 90}};
  EXPECT_TRUE(replaced_traces(traces).empty()) << "no row of the next one";
  traces[2].newest_ns = 60;
  EXPECT_EQ(replaced_traces(traces), (std::vector<ReplacedTrace>{{0, 2}}));
  traces[2].silent = true;
  EXPECT_TRUE(replaced_traces(traces).empty()) << "both are silent: the node is";
  traces.push_back({"n1", false, 65});
  EXPECT_EQ(replaced_traces(traces), (std::vector<ReplacedTrace>{{0, 4}, {2, 4}}));
  traces[0].silent = false;  // slow, and not dead
  EXPECT_EQ(replaced_traces(traces), (std::vector<ReplacedTrace>{{2, 4}}));
}

TEST(ReplacedTraces, AreThoseBeforeTheNodeWasBootedAgain) {
  std::vector<FollowedTrace> traces = {{"n1", true, 900 * kSecond, kNoon}, {"n1", false, 0, 0}};
  EXPECT_TRUE(replaced_traces(traces).empty()) << "no row of the next one";
  traces[1].newest_ns = 20 * kSecond;
  traces[1].newest_utc_ns = kNoon + 100 * kSecond;
  EXPECT_EQ(replaced_traces(traces), (std::vector<ReplacedTrace>{{0, 1}}));
}

TEST(SilentNodes, ThatEndedAreNotHeardAgain) {
  SilentNodes silence;
  std::vector<HeardNode> nodes = job_of(2);
  nodes[0].silent = true;
  EXPECT_EQ(said(silence, nodes).size(), 1U);
  nodes[0].silent = false;
  nodes[0].ended = true;
  EXPECT_TRUE(said(silence, nodes).empty());
}

}  // namespace
}  // namespace reveal::tests::silent_nodes_test
