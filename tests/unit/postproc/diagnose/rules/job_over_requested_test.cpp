// job.over_requested: a job that never used half of its allocation, and jobs that have a reason.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::job_over_requested_test {
namespace {

using R = RuleRecording;

R job_with(double cpus_used, double gigabytes_used, double seconds = 900) {
  R node(seconds);
  node.counter("job.cpu_time", "", R::always(cpus_used * 1e9));
  node.gauge("cgroup.memory_anon", "", R::always(1e9));
  node.gauge("group.memory_peak", "job", R::always(gigabytes_used * 1e9));
  node.begin = {{"env.SLURM_JOB_ID", "4711"},     {"env.SLURM_JOB_NUM_NODES", "1"}, {"env.SLURM_MEM_PER_NODE", "32768"},
                {"memory.total", "270000000000"}, {"job.cpus_allowed", "0-15"},     {"job.cpus_owned", "0-15"}};
  return node;
}

void set(Snapshot& facts, const std::string& key, const std::string& value) {
  std::erase_if(facts, [&](const auto& fact) { return fact.first == key; });
  facts.emplace_back(key, value);
}

TEST(RuleOverRequested, NamesBothAndWhatToAskForNextTime) {
  const auto found = job_with(3, 6).findings("job.over_requested");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::info) << "a healthy job stays one";
  EXPECT_EQ(found[0].evidence.size(), 2U);
  EXPECT_NE(found[0].sentence.find("5.59 GiB of 32 GiB of memory and 2.9"), std::string::npos) << found[0].sentence;
  ASSERT_EQ(found[0].remedy.user.size(), 2U);
  EXPECT_TRUE(found[0].remedy.user[0].starts_with("#SBATCH --mem=7500M")) << found[0].remedy.user[0];
  EXPECT_TRUE(found[0].remedy.user[1].starts_with("#SBATCH --cpus-per-task=3")) << found[0].remedy.user[1];
}

TEST(RuleOverRequested, NamesTheOneThatWasLeftOver) {
  const auto memory = job_with(15, 6).findings("job.over_requested");
  ASSERT_EQ(memory.size(), 1U);
  EXPECT_EQ(memory[0].evidence.at(0).metric, "group.memory_peak");
  EXPECT_EQ(memory[0].remedy.user.size(), 1U);
  R tasks = job_with(3, 30);
  set(tasks.begin, "env.SLURM_NTASKS", "16");
  const auto cpus = tasks.findings("job.over_requested");
  ASSERT_EQ(cpus.size(), 1U);
  EXPECT_TRUE(cpus[0].remedy.user.empty());
  EXPECT_NE(cpus[0].remedy.advice.at(0).find("fewer than 16 tasks"), std::string::npos);
}

TEST(RuleOverRequested, CountsCpusAsSlurmDoes) {
  R node = job_with(3, 30);
  node.begin.emplace_back("cpu_threads.0", "0,8 1,9 2,10 3,11 4,12 5,13 6,14 7,15");
  node.begin.emplace_back("env.SLURM_CPUS_ON_NODE", "16");
  const auto line = [&] { return node.findings("job.over_requested").at(0).remedy.user.at(0); };
  EXPECT_TRUE(line().starts_with("#SBATCH --cpus-per-task=6 ")) << "three cores are six cpus: " << line();
  node.begin.back().second = "8";
  EXPECT_TRUE(line().starts_with("#SBATCH --cpus-per-task=3 ")) << "cpus are cores: " << line();
  R memory = job_with(15, 9);
  set(memory.begin, "env.SLURM_MEM_PER_NODE", "");
  set(memory.begin, "env.SLURM_MEM_PER_CPU", "2048");
  EXPECT_EQ(memory.findings("job.over_requested").size(), 1U);
  memory.begin.emplace_back("env.SLURM_CPUS_ON_NODE", "8");
  EXPECT_TRUE(memory.findings("job.over_requested").empty()) << "9 of 16 GiB";
}

TEST(RuleOverRequested, IsSilentOnJobsThatHaveAReason) {
  const auto silent = [](const R& node) { return node.findings("job.over_requested").empty(); };
  EXPECT_TRUE(silent(job_with(12, 20)));
  EXPECT_TRUE(silent(job_with(3, 6, 300))) << "too short to know";
  const std::pair<const char*, const char*> reasons[] = {
      {"job.gpus_opened", "0 1"}, {"env.SLURM_GPUS_ON_NODE", "2"}, {"env.SLURM_JOB_ID", ""}};
  for (const auto& [key, value] : reasons) {
    R node = job_with(3, 6);
    set(node.begin, key, value);
    EXPECT_TRUE(silent(node)) << key;
  }
  R one_thread_a_core = job_with(7.9, 30);
  one_thread_a_core.begin.emplace_back("cpu_threads.0", "0,8 1,9 2,10 3,11 4,12 5,13 6,14 7,15");
  EXPECT_TRUE(silent(one_thread_a_core));
  R whole_node = job_with(15, 6);
  set(whole_node.begin, "env.SLURM_MEM_PER_NODE", "257000");
  EXPECT_TRUE(silent(whole_node));
  R busy_once(900);
  busy_once.counter("job.cpu_time", "", [](double second) { return second >= 300 && second < 420 ? 15e9 : 1e9; });
  busy_once.begin = job_with(3, 6).begin;
  EXPECT_TRUE(silent(busy_once)) << "two minutes with all cpus";
}

TEST(RuleOverRequested, CountsThePageCacheThatTheJobWorksOn) {
  EXPECT_TRUE(job_with(15, 30).findings("job.over_requested").empty()) << "1 GB of programs, 29 GB of files";
  R again = job_with(15, 6);
  again.counter("memory_stat.workingset_refault_file", "", R::always(3));
  EXPECT_TRUE(again.findings("job.over_requested").empty()) << "files did not fit into the memory";
  R sampled = job_with(15, std::nan(""));
  sampled.gauge("group.memory", "job", [](double second) { return second < 300 ? 9e9 : 3e9; });
  const auto found = sampled.findings("job.over_requested");
  ASSERT_EQ(found.size(), 1U) << "kernels before 5.19 count no peak";
  EXPECT_EQ(found[0].evidence.at(0).metric, "group.memory");
  EXPECT_NEAR(found[0].evidence.at(0).observed.value_or(0), 9e9, 1);
  EXPECT_TRUE(job_with(15, std::nan("")).findings("job.over_requested").empty());
}

TEST(RuleOverRequested, LeavesADisturbedJobAlone) {
  Finding narrow;
  narrow.id = "cpu.affinity_too_narrow";
  EXPECT_TRUE(job_with(1, 6).findings("job.over_requested", std::vector{narrow}).empty());
  Finding slow;
  slow.id = "io.slow_reads";
  slow.severity = Severity::warning;
  EXPECT_TRUE(job_with(1, 6).findings("job.over_requested", std::vector{slow}).empty());
}

TEST(RuleOverRequested, SaysWhatItCannotJudge) {
  EXPECT_THROW(static_cast<void>(R().findings("job.over_requested")), Unavailable);
  R several = job_with(3, 6);
  set(several.begin, "env.SLURM_JOB_NUM_NODES", "4");
  EXPECT_THROW(static_cast<void>(several.findings("job.over_requested")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::job_over_requested_test
