#include "wrapper/launch.h"

#include <gtest/gtest.h>

#include "environment.h"

namespace reveal::tests::launch_test {
namespace {

TEST(Launch, RanksOfOneLaunchShareTheKey) {
  const auto first = identify_launch("n1", with({{"OMPI_MCA_ess_base_jobid", "77"}, {"OMPI_COMM_WORLD_RANK", "0"}}));
  const auto second = identify_launch(
      "n1",
      with({{"OMPI_MCA_ess_base_jobid", "77"}, {"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}));
  EXPECT_EQ(first.key, second.key);
  EXPECT_EQ(second.ranks_on_node, 4);
  EXPECT_TRUE(first.prints());
  EXPECT_FALSE(second.prints());
}

TEST(Launch, TakesTheRankOfItsOwnLauncher) {
  const auto rank_of = [](const char* identity, const char* variable) {
    return identify_launch("n1", with({{identity, "77"}, {variable, "3"}, {"RANK", "0"}, {"SLURM_PROCID", "1"}})).rank;
  };
  EXPECT_EQ(rank_of("OMPI_MCA_ess_base_jobid", "OMPI_COMM_WORLD_RANK"), 3);
  EXPECT_EQ(rank_of("PMIX_NAMESPACE", "PMIX_RANK"), 3);
  EXPECT_EQ(rank_of("MPI_LOCALNRANKS", "PMI_RANK"), 3);
  EXPECT_EQ(rank_of("SLURM_STEP_ID", "unknown"), 1);
  EXPECT_EQ(rank_of("TORCHELASTIC_RUN_ID", "OMPI_COMM_WORLD_RANK"), 0);
  EXPECT_EQ(rank_of("PMI_JOBID", "OMPI_COMM_WORLD_RANK"), 0) << "any, where its own is missing";
}

TEST(Launch, NodesOfOneLaunchDoNot) {
  const auto environment = with({{"PMIX_NAMESPACE", "slurm.pmix.4711.0"}});
  EXPECT_NE(identify_launch("n1", environment).key, identify_launch("n2", environment).key);
}

TEST(Launch, StepsOfOneJobAreSeparateLaunches) {
  const auto first = identify_launch("n1", with({{"SLURM_JOB_ID", "4711"}, {"SLURM_STEP_ID", "0"}}));
  const auto second = identify_launch("n1", with({{"SLURM_JOB_ID", "4711"}, {"SLURM_STEP_ID", "1"}}));
  EXPECT_TRUE(first.shared);
  EXPECT_NE(first.key, second.key);
}

TEST(Launch, ABatchScriptIsNoSharedLaunch) {
  const auto environment = with({{"SLURM_JOB_ID", "4711"}});
  EXPECT_FALSE(identify_launch("n1", environment).shared);
}

TEST(Launch, CommandsInAStepOfOneTaskAreSeparateLaunches) {
  const auto in_step = [](const char* tasks, const char* variable, const char* value) {
    return identify_launch(
        "n1",
        with({{"SLURM_JOB_ID", "4711"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", tasks}, {variable, value}}));
  };
  constexpr struct {
    const char* variable;
    const char* value;
  } kInterfaces[] = {{"MPI", "none"}, {"PMIX_NAMESPACE", "slurm.pmix.4711.0"}, {"PMI_JOBID", "4711.0"}};
  for (const auto& each : kInterfaces) {
    EXPECT_FALSE(in_step("1", each.variable, each.value).shared) << each.variable;
    EXPECT_TRUE(in_step("1", each.variable, each.value).prints()) << each.variable;
    EXPECT_TRUE(in_step("2", each.variable, each.value).shared) << each.variable;
  }
  EXPECT_TRUE(in_step("1", "PMIX_NAMESPACE", "prterun-n1-77@1").shared) << "mpirun in such a shell";
  EXPECT_TRUE(in_step("1", "TORCHELASTIC_RUN_ID", "0").shared);
  EXPECT_TRUE(in_step("1", "MPI_LOCALNRANKS", "2").shared);
}

TEST(Launch, TheInnermostLauncherDecides) {
  const auto launch = identify_launch(
      "n1", with({{"SLURM_JOB_ID", "4711"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "5"}, {"PMIX_NAMESPACE", "ns"}}));
  EXPECT_TRUE(launch.key.starts_with("ns")) << launch.key;
  EXPECT_TRUE(launch.key.ends_with("@n1")) << launch.key;
}

TEST(Launch, RanksOfHydraMeetByTheirParent) {
  const auto first = identify_launch("n1", with({{"MPI_LOCALNRANKS", "2"}, {"PMI_RANK", "0"}}));
  const auto second = identify_launch("n1", with({{"MPI_LOCALNRANKS", "2"}, {"PMI_RANK", "1"}}));
  EXPECT_TRUE(first.shared);
  EXPECT_EQ(first.key, second.key);
}

TEST(Launch, KeysAreFileNames) {
  const auto launch = identify_launch("n1", with({{"PMI_JOBID", "../kvs 1"}}));
  EXPECT_EQ(launch.key.find('/'), std::string::npos);
}

TEST(Launch, NodeNameFromSettingThenSlurmThenHost) {
  RunSettings settings;
  EXPECT_EQ(node_name(settings, with({{"SLURMD_NODENAME", "n07"}})), "n07");
  EXPECT_FALSE(node_name(settings, with({})).empty());
  settings.node = "a/b";
  EXPECT_EQ(node_name(settings, with({{"SLURMD_NODENAME", "n07"}})), "a_b");
}

}  // namespace
}  // namespace reveal::tests::launch_test
