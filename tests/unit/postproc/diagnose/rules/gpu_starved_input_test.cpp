#include <gtest/gtest.h>

#include "gpu_starving.h"
#include "hdf5schema/basics/error.h"

namespace reveal::tests::gpu_starved_input_test {
namespace {

using R = RuleRecording;

TEST(RuleGpuStarvedInput, NamesFullCpusAndTheCost) {
  GpuTraining training = starving(7.9, 1.2, 0.01);
  training.node.begin.emplace_back("env.SLURM_JOB_ID", "4711");
  const auto found = training.findings("gpu.starved_input");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence,
            "The job's GPUs on node n2 waited for data: they worked 60.2 % of the time, and while they were idle, the "
            "job used 7.82 of the 8 cpus that it may use.");
  EXPECT_EQ(found[0].severity, Severity::critical);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 0.4 * GpuTraining::kSeconds, 12);
  EXPECT_TRUE(found[0].impact.at_most) << "a part of it may be no wait for data";
  EXPECT_EQ(found[0].evidence.at(1).metric, "job.cpu_time");
  EXPECT_TRUE(found[0].remedy.user.at(0).starts_with("#SBATCH --cpus-per-task=16")) << found[0].remedy.user[0];
  EXPECT_TRUE(starving(7.9, 1.2, 0.01).findings("gpu.starved_io").empty());
}

TEST(RuleGpuStarvedInput, AsksForNoMoreCpusThanANodeHas) {
  const auto asked = [](const char* online, const char* tasks, const char* own) {
    GpuTraining training = starving(7.9, 1.2, 0.01);
    Snapshot& facts = training.node.begin;
    facts.insert(facts.end(), {{"env.SLURM_JOB_ID", "4711"},
                               {"cpu.online", online},
                               {"env.SLURM_NTASKS_PER_NODE", tasks},
                               {"env.SLURM_CPUS_PER_TASK", own}});
    const auto found = training.findings("gpu.starved_input");
    return found.size() != 1 ? "no finding" : found[0].remedy.user.empty() ? "" : found[0].remedy.user[0];
  };
  EXPECT_TRUE(asked("0-63", "1", "48").starts_with("#SBATCH --cpus-per-task=64   # it had 48; ")) << "not 96";
  EXPECT_TRUE(asked("0-63", "4", "12").starts_with("#SBATCH --cpus-per-task=16 ")) << "64 cpus for four tasks";
  EXPECT_TRUE(asked("0-63", "4", "16").starts_with("top ")) << "the node has no more";
}

TEST(RuleGpuStarvedInput, AdvisesMoreCpusWithoutSlurmToo) {
  const auto advice = [](const char* online) {
    GpuTraining training = starving(0.99, 0.98, 0.01, 1);
    training.node.begin = {{"job.cpus_allowed", "0"}, {"cpu.online", online}};
    const auto found = training.findings("gpu.starved_input");
    EXPECT_EQ(found.size(), 1U);
    EXPECT_TRUE(found.at(0).sentence.starts_with("The job's GPU on node n2 waited for data: it worked "))
        << found.at(0).sentence;
    EXPECT_TRUE(found.at(0).sentence.ends_with(" of the 1 cpu that it may use.")) << found.at(0).sentence;
    return found.at(0).remedy.advice.at(0);
  };
  EXPECT_EQ(advice("0-1"),
            "Run the job on 2 cpus instead of 1: the job nearly filled its cpus while the GPUs were idle.");
  EXPECT_TRUE(advice("0").starts_with("Decode ")) << "the node has no more";
}

GpuTraining one_process(double bytes, double busiest = 1.05) {
  GpuTraining training = starving(busiest + 0.05, busiest, 0.01);
  training.node.counter("net.tx_bytes", "eth0", then(bytes, 10e6), "node");
  return training;
}

TEST(RuleGpuStarvedInput, AdvisesDataLoadersToPyTorchOnly) {
  const Finding other = one_process(1e6).findings("gpu.starved_input").at(0);
  for (const std::string& line : other.remedy.advice) {
    EXPECT_EQ(line.find("DataLoader"), std::string::npos) << line;
    EXPECT_EQ(line.find("non_blocking"), std::string::npos) << line;
  }
  EXPECT_EQ(other.remedy.advice.at(0),
            "Prepare the data in 7 processes or threads: the job's other cpus were not full.");
  GpuTraining torch = one_process(1e6);
  torch.node.begin.emplace_back("job.libraries", "torch");
  EXPECT_EQ(torch.findings("gpu.starved_input").at(0).remedy.advice.size(), 2U);
}

TEST(RuleGpuStarvedInput, ShowsOneProcessThatMayPrepareAllOfIt) {
  GpuTraining training = one_process(1e6);
  training.node.begin.emplace_back("job.libraries", "torch");
  const auto found = training.findings("gpu.starved_input");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  EXPECT_EQ(found[0].evidence.at(1).metric, "process.cpu_time");
  EXPECT_TRUE(found[0].sentence.ends_with(" of its 8 cpus: one thread may prepare its data.")) << found[0].sentence;
  EXPECT_NE(found[0].remedy.advice.at(0).find("DataLoader(num_workers=7,"), std::string::npos);
}

TEST(RuleGpuStarvedInput, SpeaksOfOneThreadOnlyWhereOneProcessFillsOneCpu) {
  const std::string four_cpus = one_process(1e6, 4).findings("gpu.starved_input").at(0).sentence;
  EXPECT_TRUE(four_cpus.ends_with(" of its 8 cpus.")) << four_cpus;
  GpuTraining ranks = one_process(1e6);
  ranks.node.counter("process.cpu_time", "rank1", R::always(1e9));
  const std::string two_ranks = ranks.findings("gpu.starved_input").at(0).sentence;
  EXPECT_TRUE(two_ranks.ends_with(" of its 8 cpus.")) << two_ranks;
}

TEST(RuleGpuStarvedInput, LeavesAProcessAloneThatPollsForAnotherNode) {
  EXPECT_TRUE(one_process(500e6).findings("gpu.starved_input").empty());
  EXPECT_THROW(static_cast<void>(starving(1.1, 1.05, 0.01).findings("gpu.starved_input")), Unavailable);
}

TEST(RuleGpuStarvedInput, SeesWaitsThatAreShorterThanALook) {
  GpuTraining training;
  training.set("gpu.utilization", R::always(52)).set("job.cpu_time", R::always(7.9e9));
  training.set("pressure.io_some", R::always(0));
  EXPECT_EQ(training.findings("gpu.starved_input").size(), 1U);
}

// An H100 behind a loader of one process: 80 ms for a batch, 24 ms for a step.
TEST(RuleGpuStarvedInput, ShowsGpusThatAreNeverFullBecauseAllWaitsAreShort) {
  const auto found_at = [](double use) {
    GpuTraining training = one_process(1e6);
    training.set("gpu.utilization", GpuTraining::while_it_works(use, 0));
    training.set("job.cpu_time", R::always(1.04e9)).set("process.cpu_time", R::always(1e9));
    return training.findings("gpu.starved_input");
  };
  const auto found = found_at(23);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  EXPECT_TRUE(found[0].sentence.starts_with("The job's GPUs on node n2 worked 2")) << found[0].sentence;
  EXPECT_TRUE(found_at(97).empty());
  EXPECT_TRUE(found_at(4).empty()) << "it hardly works: gpu.allocated_unused";
}

TEST(RuleGpuStarvedInput, CountsNoGpuThatIsNeverFullBesideOneThatIs) {
  GpuTraining training;
  training.set("gpu.utilization", GpuTraining::while_it_works(8, 0), 1);  // it evaluates, or only shows a picture
  training.set("job.cpu_time", R::always(7.9e9)).set("pressure.io_some", R::always(0));
  EXPECT_TRUE(training.findings("gpu.starved_input").empty());
}

TEST(RuleGpuStarvedInput, SaysWhereTheWorkIsTooShortToJudge) {
  GpuTraining training = starving(7.9, 1.2, 0.01);
  const auto working = then(3, 97);
  training.set("gpu.utilization", [=](double second) { return second >= 20 && second < 60 ? working(second) : 0.0; });
  EXPECT_THROW(static_cast<void>(training.findings("gpu.starved_input")), Unavailable);
}

TEST(RuleGpuStarvedInput, LeavesNarrowCpusToTheirOwnRule) {
  Finding narrow;
  narrow.id = "cpu.affinity_too_narrow";
  EXPECT_TRUE(starving(7.9, 1.2, 0.01).findings("gpu.starved_input", std::vector<Finding>{narrow}).empty());
}

}  // namespace
}  // namespace reveal::tests::gpu_starved_input_test
