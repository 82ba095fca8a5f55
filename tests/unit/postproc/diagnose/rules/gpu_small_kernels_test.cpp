#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "gpu_training.h"

namespace reveal::tests::gpu_small_kernels_test {
namespace {

using R = RuleRecording;

GpuTraining small_kernels(double power, double memory_use, double busiest) {
  GpuTraining training;
  training.set("gpu.utilization", GpuTraining::while_it_works(70, 2));
  training.set("gpu.power", GpuTraining::while_it_works(power, 90));
  training.set("gpu.memory_utilization", GpuTraining::while_it_works(memory_use, 0));
  training.set("process.cpu_time", R::always(busiest * 1e9));
  return training;
}

TEST(RuleGpuSmallKernels, IsAPossibilityWhereBusyGpusDoLittleAndOneCpuIsFull) {
  const auto found = small_kernels(180, 5, 1.02).findings("gpu.small_kernels");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(
      found[0].sentence,
      "The job's GPUs on node n2 were busy 67 % of the time, but with little work at a time: 180 of 700 W, 4.78 % of "
      "the memory bus, while the job's process used 1.01 cpus.");
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  EXPECT_NE(found[0].sentence.find("while the job's process used 1.01 cpus."), std::string::npos)
      << "it was not measured for what: " << found[0].sentence;
}

TEST(RuleGpuSmallKernels, RecordsAPartThatTheNextRunHas) {
  const auto profile = [](double seconds) {
    GpuTraining training = small_kernels(180, 5, 1.02);
    training.node = R(seconds);
    const auto found = training.findings("gpu.small_kernels");
    return found.size() != 1 ? "no finding" : found[0].remedy.user.at(0);
  };
  EXPECT_TRUE(profile(300).starts_with("nsys profile -t cuda,nvtx -y 120 -d 30 ")) << profile(300);
  EXPECT_TRUE(profile(84).starts_with("nsys profile -t cuda,nvtx -y 8 -d 30 ")) << profile(84);
  EXPECT_NE(profile(84).find("from second 8 on"), std::string::npos) << profile(84);
}

TEST(RuleGpuSmallKernels, IsSilentOnWorkBoundByMemoryOnHardWorkAndOnFreeCpus) {
  EXPECT_TRUE(small_kernels(180, 60, 1.02).findings("gpu.small_kernels").empty());
  EXPECT_TRUE(small_kernels(600, 5, 1.02).findings("gpu.small_kernels").empty());
  EXPECT_TRUE(small_kernels(180, 5, 0.4).findings("gpu.small_kernels").empty());
}

/// Launches of each of the two processes of the job, in the runtime and, below it, in the driver.
GpuTraining launching(double rate) {
  GpuTraining training = small_kernels(180, 5, 1.02);
  for (const char* process : {"rank0", "rank1"}) {
    for (const char* function : {"/cudaLaunchKernel", "/cuLaunchKernel"}) {
      training.node.counter("stack.calls", std::string(process) + function, R::always(rate), "rank");
    }
  }
  return training;
}

TEST(RuleGpuSmallKernels, MeasuresThemWhereLaunchesAreCounted) {
  const auto found = launching(20'000).findings("gpu.small_kernels");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice) << "the cost is not known";
  EXPECT_EQ(found[0].confidence, Confidence::likely);
  EXPECT_NE(found[0].sentence.find("launched 39,600 kernels a second, of 33.9 us GPU time each."), std::string::npos)
      << found[0].sentence;
}

TEST(RuleGpuSmallKernels, CountsALaunchOnceInWhicheverLayerAProcessShowsIt) {
  GpuTraining training = small_kernels(180, 5, 1.02);
  training.node.counter("stack.calls", "rank0/cudaLaunchKernel", R::always(20'000), "rank");
  training.node.counter("stack.calls", "rank0/cuLaunchKernel", R::always(5'000), "rank");  // it rests at times
  training.node.counter("stack.calls", "rank1/cuLaunchKernelEx", R::always(20'000), "rank");
  const auto found = training.findings("gpu.small_kernels");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("launched 39,600 kernels a second, of 33.9 us GPU time each."), std::string::npos)
      << found[0].sentence;
}

/// A GPU that has only pauses between kernels, beside a process that is in launches for a part of its time, which are
/// counted for two seconds.
GpuTraining waiting_for_launches(double share) {
  GpuTraining training(1);
  training.set("gpu.utilization", GpuTraining::while_it_works(30, 0));
  training.set("gpu.power", GpuTraining::while_it_works(120, 70));
  training.set("gpu.memory_utilization", R::always(0));
  training.set("process.cpu_time", R::always(1e9)).set("job.cpu_time", R::always(1e9));
  const auto counted = [](double rate) {
    return [=](double second) { return second < 100 || second >= 102 ? std::nan("") : rate; };
  };
  training.node.counter("net.tx_bytes", "eth0", R::always(0), "node");
  training.node.counter("stack.calls", "rank0/cudaLaunchKernel", counted(87'000), "rank");
  training.node.counter("stack.time", "rank0/cudaLaunchKernel", counted(share * 1e9), "rank");
  return training;
}

TEST(RuleGpuSmallKernels, NamesGpusThatAreHardlyBusyBesideAProcessThatOnlyLaunches) {
  const auto found = waiting_for_launches(0.49).findings("gpu.small_kernels");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("launched 86,130 kernels a second"), std::string::npos) << found[0].sentence;
  EXPECT_NE(found[0].sentence.find("The launches took 48.5 % of the time of the job's process."), std::string::npos);
  EXPECT_TRUE(waiting_for_launches(0.49).findings("gpu.starved_input").empty());
}

TEST(RuleGpuSmallKernels, LeavesGpusThatWaitForOtherWorkToStarvedInput) {
  EXPECT_TRUE(waiting_for_launches(0.1).findings("gpu.small_kernels").empty());
  EXPECT_EQ(waiting_for_launches(0.1).findings("gpu.starved_input").size(), 1U);
}

TEST(RuleGpuSmallKernels, IsSilentWhereTheKernelsAreLong) {
  EXPECT_TRUE(launching(500).findings("gpu.small_kernels").empty());
  GpuTraining graphs = launching(500);
  graphs.node.counter("stack.calls", "rank0/cudaGraphLaunch", R::always(10), "rank");
  const auto found = graphs.findings("gpu.small_kernels");
  ASSERT_EQ(found.size(), 1U) << "a graph has any number of kernels";
  EXPECT_EQ(found[0].confidence, Confidence::possible);
}

}  // namespace
}  // namespace reveal::tests::gpu_small_kernels_test
