// The rules of GPUs on a training as the probe of AMD's GPUs records it: without the metrics that only NVIDIA's driver
// has.
#include <gtest/gtest.h>

#include <algorithm>

#include "gpu_training.h"
#include "hdf5schema/basics/error.h"

namespace reveal::tests::gpu_amd_test {
namespace {

using R = RuleRecording;

/// Two GPUs, of which a test changes the second.
class AmdTraining {
 public:
  AmdTraining& set(const std::string& metric, const R::Course& course) {
    changes_.emplace_back(metric, course);
    return *this;
  }
  [[nodiscard]] std::vector<Finding> findings(std::string_view rule) {
    for (const std::string gpu : {"gpu0", "gpu1"}) {
      gauge("gpu.utilization", gpu, GpuTraining::while_it_works(97, 2));
      gauge("gpu.memory_used", gpu, R::always(60e9));
      gauge("gpu.memory_free", gpu, R::always(8e9));
      gauge("gpu.power", gpu, GpuTraining::while_it_works(290, 40));
      gauge("gpu.sm_clock", gpu, GpuTraining::while_it_works(1700e6, 800e6));
      gauge("gpu.temperature", gpu, R::always(60));
      for (const char* reason : {"gpu.reason_power_cap", "gpu.reason_sw_thermal", "gpu.reason_hw_thermal"}) {
        gauge(reason, gpu, R::always(0));
      }
      const std::string key = "gpu." + gpu + '.';
      for (const auto& [name, value] :
           {std::pair{"vendor", "AMD"}, std::pair{"name", "Instinct MI210"}, std::pair{"power_limit_default", "300"},
            std::pair{"slowdown_temperature", "100"}, std::pair{"allocated_by", "Slurm"}}) {
        node.begin.emplace_back(key + name, value);
      }
      node.begin.emplace_back(key + "power_limit", gpu == "gpu1" ? "250" : "300");
      node.begin.emplace_back(key + "address", gpu == "gpu1" ? "0000:c1:00.0" : "0000:41:00.0");
    }
    node.counter("gpu.ecc_uncorrected", "gpu1", course_of("gpu.ecc_uncorrected", R::always(0)));
    return node.findings(rule);
  }

  R node{GpuTraining::kSeconds};

 private:
  [[nodiscard]] R::Course course_of(const std::string& metric, const R::Course& healthy) const {
    for (const auto& [name, course] : changes_) {
      if (name == metric) return course;
    }
    return healthy;
  }
  void gauge(const std::string& metric, const std::string& gpu, const R::Course& healthy) {
    node.gauge(metric, gpu, gpu == "gpu1" ? course_of(metric, healthy) : healthy);
  }

  std::vector<std::pair<std::string, R::Course>> changes_;
};

/// Lines of the remedies that start with the tool of one maker.
std::vector<std::string> lines_of(const Finding& finding, std::string_view tool) {
  std::vector<std::string> lines;
  for (const auto& texts : {finding.remedy.user, finding.remedy.admin}) {
    for (const std::string& line : texts) {
      if (line.starts_with(tool)) lines.push_back(line);
    }
  }
  return lines;
}

TEST(RuleGpuAmd, HeatIsFoundWithTheToolOfTheMaker) {
  AmdTraining hot;
  hot.set("gpu.reason_sw_thermal", R::event(0, 1)).set("gpu.sm_clock", R::event(1700e6, 1200e6));
  const auto found = hot.findings("gpu.thermal_throttle");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"gpu1"});
  EXPECT_EQ(lines_of(found[0], "amd-smi"),
            std::vector<std::string>{"amd-smi metric -g 0000:c1:00.0 --temperature --clock   # on n2, under load"});
  EXPECT_TRUE(lines_of(found[0], "nvidia-smi").empty());
}

TEST(RuleGpuAmd, APowerLimitBelowTheDefaultIsFound) {
  AmdTraining capped;
  capped.set("gpu.reason_power_cap", GpuTraining::while_it_works(1, 0));
  const auto found = capped.findings("gpu.power_cap");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"gpu1"});
  EXPECT_EQ(found[0].evidence.back().observed, 250);
  EXPECT_EQ(lines_of(found[0], "amd-smi").size(), 1U);
  EXPECT_TRUE(lines_of(found[0], "nvidia-smi").empty());
  EXPECT_TRUE(AmdTraining().findings("gpu.power_cap").empty()) << "a limit that does not hold it costs nothing";
}

TEST(RuleGpuAmd, UncorrectedMemoryErrorsAreCritical) {
  AmdTraining bad;
  bad.set("gpu.ecc_uncorrected", [](double second) { return second >= 100 && second < 101 ? 2.0 : 0.0; });
  const auto found = bad.findings("gpu.ecc_remap");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::critical);
  EXPECT_EQ(lines_of(found[0], "amd-smi").size(), 3U);
  EXPECT_TRUE(lines_of(found[0], "nvidia-smi").empty());
  EXPECT_TRUE(AmdTraining().findings("gpu.ecc_remap").empty());
}

TEST(RuleGpuAmd, UnequalLoadAndUnusedGpusAreFound) {
  AmdTraining unequal;
  unequal.set("gpu.utilization", GpuTraining::while_it_works(35, 0));
  const auto found = unequal.findings("gpu.imbalance");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(lines_of(found[0], "amd-smi"),
            std::vector<std::string>{"amd-smi monitor --gfx   # on n2, while the job runs: the use of each GPU"});
  AmdTraining unused;
  unused.set("gpu.utilization", R::always(0)).set("gpu.memory_used", R::always(0.3e9));
  EXPECT_EQ(unused.findings("gpu.allocated_unused").size(), 1U);
}

TEST(RuleGpuAmd, MemoryThatFillsUpIsFound) {
  AmdTraining filling;
  filling.set("gpu.memory_used", [](double second) { return 40e9 + 27.5e9 * second / GpuTraining::kSeconds; })
      .set("gpu.memory_free", [](double second) { return 28e9 - 27.5e9 * second / GpuTraining::kSeconds; });
  EXPECT_EQ(filling.findings("gpu.mem_pressure").size(), 1U);
}

TEST(RuleGpuAmd, ReasonsThatAreNotRecordedAreNotMeasured) {
  R node{GpuTraining::kSeconds};
  node.gauge("gpu.utilization", "gpu0", R::always(97));
  node.begin = {{"gpu.gpu0.vendor", "AMD"}};
  EXPECT_THROW(static_cast<void>(node.findings("gpu.thermal_throttle")), Unavailable);
  EXPECT_THROW(static_cast<void>(node.findings("gpu.power_cap")), Unavailable);
}

TEST(RuleGpuAmd, AGpuThatIsDividedIsNotJudgedByItsLoad) {
  AmdTraining divided;
  divided.set("gpu.utilization", GpuTraining::while_it_works(35, 0));
  for (const char* gpu : {"gpu0", "gpu1"})
    divided.node.begin.emplace_back(std::string("gpu.") + gpu + ".partition", "CPX");
  EXPECT_TRUE(divided.findings("gpu.imbalance").empty());
  AmdTraining whole;
  whole.set("gpu.utilization", GpuTraining::while_it_works(35, 0));
  for (const char* gpu : {"gpu0", "gpu1"})
    whole.node.begin.emplace_back(std::string("gpu.") + gpu + ".partition", "SPX");
  EXPECT_EQ(whole.findings("gpu.imbalance").size(), 1U);
}

}  // namespace
}  // namespace reveal::tests::gpu_amd_test
