// Names of nodes as a scheduler lists them.
#include "hdf5schema/basics/node_list.h"

#include <gtest/gtest.h>

namespace reveal::tests::node_list_test {
namespace {

TEST(NodeList, IsThatOfTheScheduler) {
  EXPECT_EQ(expand_node_list("n[01-03,7],login"), (std::vector<std::string>{"n01", "n02", "n03", "n7", "login"}));
  EXPECT_EQ(expand_node_list("n1"), (std::vector<std::string>{"n1"}));
  EXPECT_TRUE(expand_node_list("").empty());
  EXPECT_TRUE(expand_node_list("n[3-1]").empty());
  EXPECT_EQ(expand_node_list("n[0-99999999]").size(), 65'536U);
  EXPECT_EQ(expand_node_list("n[09-10]-ib"), (std::vector<std::string>{"n09-ib", "n10-ib"}));
  EXPECT_EQ(expand_node_list("n[8-10]"), (std::vector<std::string>{"n8", "n9", "n10"}));
}

TEST(NodeList, AsksForAMegabyteOfNamesAtMost) {
  EXPECT_TRUE(expand_node_list(std::string(30'000, 'a') + "[00000-99999]").empty());
  std::size_t bytes = 0;
  for (const std::string& name : expand_node_list(std::string(200, 'a') + "[00000-99999]")) bytes += name.size();
  EXPECT_LE(bytes, (1U << 20) + 255);
  EXPECT_EQ(expand_node_list(std::string(300, 'a') + ",n1"), (std::vector<std::string>{"n1"}));
}

}  // namespace
}  // namespace reveal::tests::node_list_test
