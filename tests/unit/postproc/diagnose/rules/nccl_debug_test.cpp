#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::nccl_debug_test {
namespace {

using R = RuleRecording;

std::vector<Finding> of(Snapshot settings, const std::string& libraries = "nccl torch_cuda") {
  R node;
  node.begin = std::move(settings);
  node.begin.emplace_back("job.libraries", libraries);
  return node.findings("nccl.debug_env_left");
}

TEST(RuleNcclDebug, NamesEachSettingAndHowToRemoveIt) {
  const auto found = of({{"env.CUDA_LAUNCH_BLOCKING", "1"}, {"env.NCCL_DEBUG", "INFO"}, {"env.NCCL_PROTO", "LL"}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, (std::vector<std::string>{"CUDA_LAUNCH_BLOCKING", "NCCL_PROTO"}));
  EXPECT_NE(found[0].remedy.user.at(0).find("unset CUDA_LAUNCH_BLOCKING"), std::string::npos);
  EXPECT_EQ(found[0].severity, Severity::notice);
}

TEST(RuleNcclDebug, IsSilentOnHarmlessValuesAndWithoutTheLibrary) {
  EXPECT_TRUE(
      of({{"env.CUDA_LAUNCH_BLOCKING", "0"}, {"env.NCCL_DEBUG", "warn"}, {"env.TORCH_DISTRIBUTED_DEBUG", "info"}})
          .empty());
  EXPECT_TRUE(of({{"env.CUDA_LAUNCH_BLOCKING", "1"}, {"env.NCCL_DEBUG", "TRACE"}}, "mpi").empty());
  EXPECT_EQ(of({{"env.NCCL_DEBUG", "TRACE"}}, "nccl").size(), 1U);
}

TEST(RuleNcclDebug, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("nccl.debug_env_left")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::nccl_debug_test
