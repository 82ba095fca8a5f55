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

TEST(RuleHugePages, NamesEachSizeAndWhenToUseThem) {
  R node;
  node.gauge("hugepages.free", "2048kB", R::always(4 * kGiB), "node");
  node.gauge("hugepages.free", "1048576kB", R::always(16 * kGiB), "node");
  node.begin = {{"memory.total", "137438953472"}};
  const auto found = node.findings("mem.hugepages_reserved_idle");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find(" reserved as huge pages of 1 GiB and 2 MiB and not used"), std::string::npos)
      << found[0].sentence;
  ASSERT_EQ(found[0].remedy.advice.size(), 1U);
  EXPECT_TRUE(found[0].remedy.advice[0].starts_with("If memory ran short, use the huge pages: "))
      << found[0].remedy.advice[0];
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
