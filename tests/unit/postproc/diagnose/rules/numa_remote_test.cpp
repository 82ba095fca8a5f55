// numa.mem_remote: memory bound to the wrong node, and nodes on which all is well.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal {
namespace {

using R = RuleRecording;

/// Pages a second given out on node1, to its own cpus and to those of node0.
R node_with(double local, double other, double interleaved = 0) {
  R node;
  node.counter("numa_local_node", "node0", R::always(100))
      .counter("numa_local_node", "node1", R::always(local))
      .counter("numa_other_node", "node0", R::always(0))
      .counter("numa_other_node", "node1", R::always(other))
      .counter("numa_interleave_hit", "node1", R::always(interleaved));
  node.begin = {{"job.cpus_allowed", "0-1"},
                {"numa.node0.cpus", "0-1"},
                {"numa.node0.distance", "10 21"},
                {"numa.node1.cpus", "2-3"},
                {"numa.node1.distance", "21 10"}};
  return node;
}

TEST(RuleNumaRemote, SeesMemoryBoundToAnotherNode) {
  const auto found = node_with(500, 4000).findings("numa.mem_remote");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_FALSE(found[0].impact.seconds.has_value());
  EXPECT_NEAR(found[0].evidence.at(0).observed.value_or(0), 0.87, 0.02);
  EXPECT_NEAR(found[0].evidence.at(1).observed.value_or(0), 4000.0 * 120 * 4096, 2e8);
  EXPECT_NE(found[0].sentence.find("node 0 alone"), std::string::npos);
}

TEST(RuleNumaRemote, BelievesWhereThePagesAreMoreThanWhatTheNodeGaveOut) {
  const auto with_pages = [](double near, double far, double resident = 5e9) {
    R node = node_with(500, 4000);
    node.gauge("process.rss", "rank0", R::always(resident));
    node.gauge("process.numa_bytes", "rank0/node0", R::always(near))
        .gauge("process.numa_bytes", "rank0/node1", [far](double second) { return second < 40 ? std::nan("") : far; });
    return node.findings("numa.mem_remote");
  };
  EXPECT_TRUE(with_pages(8e9, 1e9).empty()) << "what others were given is theirs";
  const auto found = with_pages(1e9, 3e9);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].evidence.at(0).metric, "process.numa_bytes");
  EXPECT_NEAR(found[0].evidence.at(0).observed.value_or(0), 0.75, 1e-9);
  EXPECT_NEAR(found[0].evidence.at(1).observed.value_or(0), 3e9, 1);
}

TEST(RuleNumaRemote, SaysWhenNothingIsBound) {
  R node = node_with(500, 4000);
  node.begin[0].second = "0-3";
  EXPECT_NE(node.findings("numa.mem_remote").at(0).sentence.find("may run on 2 nodes"), std::string::npos);
}

TEST(RuleNumaRemote, IsSilentOnLocalLittleAndInterleavedMemory) {
  EXPECT_TRUE(node_with(40'000, 4000).findings("numa.mem_remote").empty());
  EXPECT_TRUE(node_with(10, 200).findings("numa.mem_remote").empty());
  EXPECT_TRUE(node_with(500, 4000, 3950).findings("numa.mem_remote").empty());
}

TEST(RuleNumaRemote, IsSilentWithinASocketAndOnOneNode) {
  R socket = node_with(500, 4000);
  socket.begin[2].second = "10 11";
  socket.begin[4].second = "11 10";
  EXPECT_TRUE(socket.findings("numa.mem_remote").empty());
  R single = node_with(500, 4000);
  single.begin.resize(3);
  EXPECT_TRUE(single.findings("numa.mem_remote").empty());
}

TEST(RuleNumaRemote, SaysWhatItCouldNotMeasure) {
  R node;
  node.begin = node_with(1, 1).begin;
  EXPECT_THROW(static_cast<void>(node.findings("numa.mem_remote")), Unavailable);
}

}  // namespace
}  // namespace reveal
