#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::mem_hugepages_test {
namespace {

using R = RuleRecording;

constexpr double kGiB = 1073741824;

std::vector<Finding> of(double free, double reserved = 0) {
  R node;
  node.gauge("hugepages.free", "1048576kB", R::event(free, free + kGiB), "node");
  node.gauge("hugepages.free", "node0/1048576kB", R::always(free), "node");
  node.gauge("hugepages.reserved", "1048576kB", R::always(reserved), "node");
  node.begin = {{"memory.total", "137438953472"}};
  return node.findings("mem.hugepages_reserved_idle");
}

TEST(RuleHugePages, SaysHowMuchMemoryNobodyCanHave) {
  const auto found = of(16 * kGiB);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"1048576kB"});
  EXPECT_TRUE(
      found[0].sentence.starts_with("16 GiB of n2 (12.5 % of its memory) were reserved as huge pages of 1 GiB "))
      << found[0].sentence;
  EXPECT_NE(found[0].remedy.admin.at(1).find("hugepages-1048576kB"), std::string::npos);
}

TEST(RuleHugePages, IsSilentOnPagesThatAreUsedPromisedOrFew) {
  EXPECT_TRUE(of(0).empty());
  EXPECT_TRUE(of(16 * kGiB, 16 * kGiB).empty());
  EXPECT_TRUE(of(2 * kGiB).empty());
}

TEST(RuleHugePages, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("mem.hugepages_reserved_idle")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::mem_hugepages_test
