#include "postproc/analysis/node_addresses.h"

#include <gtest/gtest.h>

#include "postproc/diagnose/lossy_paths.h"

namespace reveal::tests::node_addresses_test {
namespace {

std::string named(const std::string& sentence, const std::string& metric = "tcp.RetransSegs") {
  std::vector<NodeSummary> summaries(3);
  const auto node = [&](std::size_t i, const char* name, std::vector<std::string> addresses) {
    summaries[i].node = name;
    summaries[i].addresses = std::move(addresses);
  };
  node(0, "n1", {"10.0.0.1", "172.17.0.1"});
  node(1, "n2", {"10.0.0.2", "172.17.0.1"});
  node(2, "n3", {"10.0.0.3", "fd00::3"});
  std::vector<Finding> findings(1);
  findings[0].sentence = sentence;
  findings[0].evidence = {{.metric = metric}};
  name_nodes(summaries, findings);
  return findings[0].sentence;
}

TEST(NodeAddresses, AreReadFromTheFactsOfATrace) {
  EXPECT_EQ(addresses_in({{"address.eth0", "10.0.0.1 fd00::1"}, {"address.ib0", "10.9.0.1"}, {"net.eth0.mtu", "1500"}}),
            (std::vector<std::string>{"10.0.0.1", "fd00::1", "10.9.0.1"}));
}

TEST(NodeAddresses, BecomeTheNamesOfNodes) {
  EXPECT_EQ(named("They were lost on the path from 10.0.0.3 to n1."), "They were lost on the path from n3 to n1.");
  EXPECT_EQ(named("They went to 10.0.0.2."), "They went to n2.");
  EXPECT_EQ(named("from 10.0.0.1, fd00::3 to n2; it has 4 peers"), "from n1, n3 to n2; it has 4 peers");
}

TEST(NodeAddresses, StayWhereTheyAreNoNodesOrThoseOfSeveral) {
  for (const char* sentence : {"from 10.0.0.30 to n1", "from 172.17.0.1 to n1", "", "10.0 10.0.0 bad face"}) {
    EXPECT_EQ(named(sentence), sentence);
  }
}

TEST(NodeAddresses, AreNotToldOfPeersThatAreNoNodes) {
  const auto of_peers = [](const std::string& sentence) { return named(sentence, "tcp.peer.out_of_order"); };
  EXPECT_EQ(of_peers("5.4/s of 10/s were lost on the path from 10.0.0.30 to n1."),
            "5.4/s of 10/s were lost on the path from an address outside the recorded nodes to n1.");
  EXPECT_EQ(of_peers("They went to fd00::30."), "They went to an address outside the recorded nodes.");
  EXPECT_EQ(of_peers("from 172.17.0.1, 10.0.0.2 to n1"), "from an address that several nodes share, n2 to n1");
}

TEST(NodeAddresses, AreOneNodeWhereItHasSeveral) {
  EXPECT_EQ(named("from 10.0.0.3, fd00::3 to n2; it has 4 peers"), "from n3 to n2; it has 4 peers");
  EXPECT_EQ(named("from 10.0.0.3, 10.0.0.1 to n2"), "from n3, n1 to n2");
}

}  // namespace
}  // namespace reveal::tests::node_addresses_test
