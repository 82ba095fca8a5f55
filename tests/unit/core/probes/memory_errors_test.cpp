#include <gtest/gtest.h>

#include "tests/unit/core/test_host.h"

namespace reveal::tests::memory_errors_test {
namespace {

TEST(MemoryErrors, AreCountedByControllerAndModule) {
  TestHost host;
  const std::string controller = "/sys/devices/system/edac/mc/mc0";
  host.write(controller + "/ce_count", "12\n");
  host.write(controller + "/ue_count", "0\n");
  host.write(controller + "/ce_noinfo_count", "1\n");
  host.write(controller + "/dimm0/dimm_label", "CPU_SrcID#0_MC#0_Chan#0_DIMM#0\n");
  host.write(controller + "/dimm0/dimm_ce_count", "11\n");
  host.write(controller + "/dimm0/dimm_ue_count", "0\n");
  host.write(controller + "/csrow0/ce_count", "11\n");  // the same again
  ProbeBench bench(host, "memory_errors");
  bench.sample();
  EXPECT_EQ(bench.value("memory/errors", "edac.corrected", "mc0"), 12);
  EXPECT_EQ(bench.value("memory/errors", "edac.corrected_nowhere", "mc0"), 1);
  EXPECT_EQ(bench.value("memory/errors", "edac.corrected", "mc0/CPU_SrcID#0_MC#0_Chan#0_DIMM#0"), 11);
  EXPECT_EQ(bench.family("memory/errors").channels().size(), 5U);
  EXPECT_EQ(bench.family("memory/errors").spec().kind, Kind::event);
}

TEST(MemoryErrors, WithoutADriverAreAbsentWithAReason) {
  const TestHost host;
  const ProbeBench bench(host, "memory_errors");
  EXPECT_EQ(bench.coverage().state, Coverage::State::absent);
  EXPECT_NE(bench.coverage().reason.find("EDAC"), std::string::npos);
}

}  // namespace
}  // namespace reveal::tests::memory_errors_test
