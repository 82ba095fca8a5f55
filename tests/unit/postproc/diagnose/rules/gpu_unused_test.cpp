#include <gtest/gtest.h>

#include "gpu_training.h"
#include "hdf5schema/basics/error.h"

namespace reveal::tests::gpu_unused_test {
namespace {

using R = RuleRecording;

GpuTraining with_idle_gpu(int gpu = -1) {
  GpuTraining training;
  training.set("gpu.utilization", R::always(0), gpu).set("gpu.memory_used", R::always(0.5e9), gpu);
  training.node.begin.emplace_back("env.SLURM_JOB_NUM_NODES", "1");
  training.node.begin.emplace_back("env.SLURM_JOB_ID", "4711");
  return training;
}

TEST(RuleGpuUnused, NamesTheGpuAndWhatToAskFor) {
  const auto found = with_idle_gpu(1).findings("gpu.allocated_unused");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "The job never used 1 of its 2 GPUs on node n2: gpu1 (0000:81:00.0) was 0 % busy within 5 min.");
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"gpu1"});
  EXPECT_EQ(found[0].remedy.user.at(0),
            "#SBATCH --gpus=1   # as many as the job used; in place of --gres=gpu and other lines for GPUs");
  EXPECT_EQ(found[0].remedy.user.size(), 1U) << "torchrun is PyTorch's";
  EXPECT_EQ(found[0].confidence, Confidence::certain);
}

TEST(RuleGpuUnused, AsksWhetherThereIsCudaWhereNoneWasUsed) {
  const auto found = with_idle_gpu().findings("gpu.allocated_unused");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances.size(), 2U);
  EXPECT_TRUE(found[0].sentence.starts_with("The job never used any of its 2 GPUs on node n2: ")) << found[0].sentence;
  EXPECT_TRUE(found[0].remedy.user.at(0).starts_with("nvidia-smi -L ")) << found[0].remedy.user.at(0);
  EXPECT_EQ(found[0].remedy.advice,
            std::vector<std::string>{"If nvidia-smi -L lists no GPU in the container, start it with the GPUs: "
                                     "apptainer exec --nv, or docker run --gpus all."});
}

TEST(RuleGpuUnused, NamesTheToolOfTheMaker) {
  const auto remedy = [](const char* vendor) {
    GpuTraining idle = with_idle_gpu();
    idle.fact("vendor", vendor);
    return idle.findings("gpu.allocated_unused").at(0).remedy;
  };
  const Remedy amd = remedy("AMD");
  EXPECT_TRUE(amd.user.at(0).starts_with("amd-smi list   # inside the job, ")) << amd.user.at(0);
  EXPECT_TRUE(amd.advice.at(0).ends_with(" apptainer exec --rocm.")) << amd.advice.at(0);
  const Remedy intel = remedy("Intel");
  EXPECT_TRUE(intel.user.at(0).starts_with("xpu-smi discovery   # inside the job, ")) << intel.user.at(0);
  EXPECT_TRUE(intel.advice.empty());
}

TEST(RuleGpuUnused, TellsTheOnlyGpuWithOneStrength) {
  GpuTraining never(1);
  never.set("gpu.utilization", R::always(0)).set("gpu.memory_used", R::always(0.5e9));
  const Finding unused = never.findings("gpu.allocated_unused").at(0);
  EXPECT_EQ(unused.sentence,
            "The job never used its only GPU on node n2: gpu0 (0000:80:00.0) was 0 % busy within 5 min.");
  EXPECT_TRUE(unused.impact.how.ends_with("without one it may start earlier")) << unused.impact.how;
  GpuTraining hardly(1);
  hardly.set("gpu.utilization", [](double second) { return second < 10 ? 4.0 : 0.0; });
  hardly.set("gpu.memory_used", R::always(0.5e9));
  EXPECT_EQ(hardly.findings("gpu.allocated_unused").at(0).sentence,
            "The job hardly used its only GPU on node n2: gpu0 (0000:80:00.0) was at most 4 % busy within 5 min.");
}

TEST(RuleGpuUnused, IsSilentWhereNobodyAskedForTheGpuWhereNothingRanAndOnParts) {
  GpuTraining workstation = with_idle_gpu(1);
  workstation.fact("allocated_by", "");
  EXPECT_THROW(static_cast<void>(workstation.findings("gpu.allocated_unused")), Unavailable);
  GpuTraining crashed = with_idle_gpu();
  crashed.set("job.cpu_time", R::always(0));
  EXPECT_TRUE(crashed.findings("gpu.allocated_unused").empty());
  GpuTraining divided = with_idle_gpu();
  divided.fact("mig", "enabled");
  EXPECT_THROW(static_cast<void>(divided.findings("gpu.allocated_unused")), Unavailable);
  GpuTraining starved;
  starved.set("gpu.utilization", [](double second) { return std::fmod(second, 100) < 5 ? 60.0 : 0.0; });
  EXPECT_TRUE(starved.findings("gpu.allocated_unused").empty());
}

TEST(RuleGpuUnused, IsSilentOnAGpuThatWasLost) {
  GpuTraining lost = with_idle_gpu(1);
  lost.node.events.push_back({5'000'000'000, "gpu1", "gpu_lost", "it has fallen off the bus"});
  EXPECT_TRUE(lost.findings("gpu.allocated_unused").empty());
  EXPECT_EQ(lost.findings("gpu.xid").size(), 1U);
}

TEST(RuleGpuImbalance, NamesTheLeastAndTheMostLoaded) {
  GpuTraining uneven;
  uneven.set("gpu.utilization", GpuTraining::while_it_works(35, 1), 0);
  const auto found = uneven.findings("gpu.imbalance");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "The job's GPUs on node n2 had unequal load: gpu0 (0000:80:00.0) was busy 33.5 % of the time, gpu1 "
            "(0000:81:00.0) 92.9 %.");
  EXPECT_EQ(found[0].instances, (std::vector<std::string>{"gpu0", "gpu1"}));
  EXPECT_NEAR(found[0].evidence.at(0).observed.value_or(0), 33, 3);
}

TEST(RuleGpuImbalance, LeavesAGpuThatIsHeldBackOrUnusedToItsOwnRule) {
  Finding heat;
  heat.id = "gpu.thermal_throttle";
  GpuTraining uneven;
  uneven.set("gpu.utilization", GpuTraining::while_it_works(35, 1), 0);
  EXPECT_TRUE(uneven.findings("gpu.imbalance", std::vector<Finding>{heat}).empty());
  EXPECT_TRUE(with_idle_gpu(1).findings("gpu.imbalance").empty());
  GpuTraining near;
  near.set("gpu.utilization", GpuTraining::while_it_works(80, 1), 0);
  EXPECT_TRUE(near.findings("gpu.imbalance").empty());
}

TEST(RuleGpuImbalance, TakesOnlyGpusThatTheFactsNameAsTheJobs) {
  GpuTraining neighbour;
  neighbour.node.gauge("gpu.utilization", "gpu7", GpuTraining::while_it_works(35, 1));
  EXPECT_TRUE(neighbour.findings("gpu.imbalance").empty());
  neighbour.node.begin.emplace_back("gpu.gpu7.name", "H100");
  EXPECT_EQ(neighbour.findings("gpu.imbalance").size(), 1U);
}

TEST(RuleGpuMemory, NamesAGpuWhoseMemoryFillsUp) {
  GpuTraining leaking(1);
  leaking.set("gpu.memory_used", [](double second) { return 50e9 + second * 0.1e9; });
  leaking.set("gpu.memory_free", [](double second) { return 30e9 - second * 0.1e9; });
  const auto found = leaking.findings("gpu.mem_pressure");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "The memory of gpu0 (0000:80:00.0) on n2 filled up while the job ran: 97.6 % of it was used at the end, "
            "70.2 % at the beginning.");
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_GT(found[0].evidence.at(0).observed.value_or(0), 0.95);
}

TEST(RuleGpuMemory, IsSilentWhereAFrameworkTookAllOfItAtItsStart) {
  GpuTraining reserved(1);
  reserved.set("gpu.memory_used", [](double second) { return second < 25 ? 10e9 : 78e9; });
  reserved.set("gpu.memory_free", [](double second) { return second < 25 ? 70e9 : 2e9; });
  EXPECT_TRUE(reserved.findings("gpu.mem_pressure").empty());
}

TEST(RuleGpuMemory, IsSilentOnAnAllocatorThatKeepsWhatItTook) {
  const auto used = [](double second) { return second < 150 ? 50e9 + second * 0.18e9 : 77e9; };
  GpuTraining caching(1);
  caching.set("gpu.memory_used", used);
  caching.set("gpu.memory_free", [used](double second) { return 80e9 - used(second); });
  EXPECT_TRUE(caching.findings("gpu.mem_pressure").empty());
}

}  // namespace
}  // namespace reveal::tests::gpu_unused_test
