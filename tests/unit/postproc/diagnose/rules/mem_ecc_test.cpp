#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::mem_ecc_test {
namespace {

using R = RuleRecording;

R::Course at(double when, double count) {
  return [=](double second) { return second >= when && second < when + 0.05 ? count : 0; };
}

std::vector<Finding> of(double corrected, double uncorrected) {
  R node;
  node.gauge("edac.corrected", "mc0", at(20, corrected), "node");
  node.gauge("edac.corrected", "mc0/dimm3", at(20, corrected), "node");
  node.gauge("edac.uncorrected", "mc0", at(30, uncorrected), "node");
  return node.findings("mem.ecc_host");
}

TEST(RuleEcc, NamesTheModule) {
  const auto found = of(12, 0);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"mc0/dimm3"});
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_NE(found[0].sentence.find("12 corrected memory errors"), std::string::npos) << found[0].sentence;
}

TEST(RuleEcc, IsCriticalWhereAnErrorWasNotCorrected) {
  const auto found = of(12, 1);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::critical);
  EXPECT_NE(found[0].sentence.find("1 uncorrected memory error "), std::string::npos) << found[0].sentence;
}

TEST(RuleEcc, IsSilentOnAFewCorrectedErrors) {
  EXPECT_TRUE(of(9, 0).empty());
  EXPECT_THROW(static_cast<void>(R().findings("mem.ecc_host")), Unavailable);
}

TEST(RuleEcc, OfANodeWithoutAJobCountsFromItsStart) {
  const auto since_start = [](const char* corrected, const char* uncorrected) {
    R node;
    node.begin = {{"since_start.seconds", "864000"},
                  {"since_start.memory_errors_corrected", corrected},
                  {"since_start.memory_errors_uncorrected", uncorrected}};
    return node.findings("mem.ecc_host");
  };
  const auto many = since_start("500", "0");
  ASSERT_EQ(many.size(), 1U);
  EXPECT_EQ(many[0].severity, Severity::notice);
  EXPECT_NE(many[0].sentence.find("has had 500 corrected errors since the node was started 10 d"), std::string::npos)
      << many[0].sentence;
  EXPECT_TRUE(since_start("40", "0").empty()) << "four a day";
  EXPECT_EQ(since_start("0", "1").at(0).severity, Severity::critical);
}

}  // namespace
}  // namespace reveal::tests::mem_ecc_test
