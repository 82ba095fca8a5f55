// The rules of GPUs on a job as the probe of Intel's graphics cards records it: remedies have the tool of the maker.
#include <gtest/gtest.h>

#include <algorithm>

#include "gpu_training.h"

namespace reveal::tests::gpu_intel_test {
namespace {

using R = RuleRecording;

/// Two GPUs; the reason holds the second back.
std::vector<Finding> findings(std::string_view rule, std::string_view reason, const std::string& limit = "150") {
  R node{GpuTraining::kSeconds};
  for (const std::string gpu : {"gpu0", "gpu1"}) {
    const bool held = gpu == "gpu1";
    node.gauge("gpu.utilization", gpu, GpuTraining::while_it_works(97, 2));
    node.gauge("gpu.sm_clock", gpu, GpuTraining::while_it_works(2050e6, 800e6));
    for (const char* name : {"gpu.reason_power_cap", "gpu.reason_sw_thermal", "gpu.reason_hw_thermal"})
      node.gauge(name, gpu, held && name == reason ? GpuTraining::while_it_works(1, 0) : R::always(0));
    const std::string key = "gpu." + gpu + '.';
    for (const auto& [name, value] :
         {std::pair{"vendor", "Intel"}, std::pair{"power_limit_default", "150"}, std::pair{"allocated_by", "Slurm"}})
      node.begin.emplace_back(key + name, value);
    node.begin.emplace_back(key + "power_limit", held ? limit : "150");
    node.begin.emplace_back(key + "address", held ? "0000:43:00.0" : "0000:03:00.0");
  }
  return node.findings(rule);
}

std::size_t lines_with(const Finding& finding, std::string_view tool) {
  std::size_t lines = 0;
  for (const auto& texts : {finding.remedy.user, finding.remedy.admin}) {
    for (const std::string& line : texts) lines += line.find(tool) != std::string::npos ? 1 : 0;
  }
  return lines;
}

TEST(RuleGpuIntel, HeatIsFoundWithTheToolOfTheMaker) {
  const auto found = findings("gpu.thermal_throttle", "gpu.reason_sw_thermal");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"gpu1"});
  EXPECT_EQ(lines_with(found[0], "xpu-smi stats -d 0000:43:00.0"), 1U);
  EXPECT_EQ(lines_with(found[0], "nvidia-smi"), 0U);
  EXPECT_EQ(lines_with(found[0], "amd-smi"), 0U);
  EXPECT_TRUE(findings("gpu.thermal_throttle", "").empty());
}

TEST(RuleGpuIntel, APowerLimitBelowTheDefaultIsFoundWithTheToolOfTheMaker) {
  const auto found = findings("gpu.power_cap", "gpu.reason_power_cap", "120");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(lines_with(found[0], "xpu-smi config -d 0000:43:00.0 --powerlimit 150"), 1U);
  EXPECT_EQ(lines_with(found[0], "nvidia-smi"), 0U);
  EXPECT_TRUE(findings("gpu.power_cap", "gpu.reason_power_cap").empty()) << "full load at the usual limit";
}

}  // namespace
}  // namespace reveal::tests::gpu_intel_test
