#include <gtest/gtest.h>

#include "gpu_starving.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"

namespace reveal::tests::gpu_starved_io_test {
namespace {

using R = RuleRecording;

TEST(RuleGpuStarvedIo, NamesStorageWhereCpusAreFree) {
  const auto found = starving(0.6, 0.2, 0.8).findings("gpu.starved_io");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(
      found[0].sentence,
      "The job's GPUs on node n2 waited for storage: they worked 60.2 % of the time, and while they were idle, tasks "
      "waited for io 79.2 % of the time.");
  EXPECT_NEAR(found[0].evidence.at(1).observed.value_or(0), 0.8, 0.1);
  EXPECT_TRUE(starving(0.6, 0.2, 0.8).findings("gpu.starved_input").empty());
}

TEST(RuleGpuStarvedIo, ShowsTheMetricThatCountsTheWaiting) {
  GpuTraining training = starving(0.6, 0.2, 0.02);
  training.node.counter("cgroup.io_some", "", then(0.8e9, 0.02e9));
  EXPECT_EQ(training.findings("gpu.starved_io").at(0).evidence.at(1).metric, "cgroup.io_some");
  EXPECT_EQ(starving(0.6, 0.2, 0.8).findings("gpu.starved_io").at(0).evidence.at(1).metric, "pressure.io_some");
}

TEST(RuleGpuStarvedIo, CountsBlockedProcessesWhereTheKernelCountsNoWaiting) {
  GpuTraining training = starving(0.6, 0.2, 0.8);
  training.set("pressure.io_some", R::always(kNaN));
  EXPECT_THROW(static_cast<void>(training.findings("gpu.starved_io")), Unavailable);
  training.node.gauge("job.blocked", "", then(2, 0));
  const auto found = training.findings("gpu.starved_io");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  EXPECT_EQ(found[0].evidence.at(1).metric, "job.blocked");
  EXPECT_TRUE(found[0].remedy.admin.at(0).starts_with("grubby ")) << found[0].remedy.admin.at(0);
  EXPECT_TRUE(found[0].remedy.user.at(0).starts_with("ps -u ")) << found[0].remedy.user.at(0);
  const Finding counted = starving(0.6, 0.2, 0.8).findings("gpu.starved_io").at(0);
  EXPECT_TRUE(counted.remedy.admin.empty());
  EXPECT_TRUE(counted.remedy.user.at(0).starts_with("cat /proc/pressure/io ")) << counted.remedy.user.at(0);
}

TEST(RuleGpuStarvedIo, IsSilentOnShortPausesAndWhereNothingIsFull) {
  EXPECT_TRUE(GpuTraining().findings("gpu.starved_io").empty()) << "checkpoints wait for storage, too";
  EXPECT_TRUE(starving(1, 0.3, 0.02).findings("gpu.starved_io").empty());
  EXPECT_TRUE(starving(1, 0.3, 0.02).findings("gpu.starved_input").empty());
}

TEST(RuleGpuStarvedIo, SaysWhatWasNotMeasured) {
  R node(300);
  node.gauge("gpu.utilization", "gpu0", then(3, 97));
  EXPECT_THROW(static_cast<void>(node.findings("gpu.starved_io")), Unavailable);
  EXPECT_THROW(static_cast<void>(node.findings("gpu.starved_input")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::gpu_starved_io_test
