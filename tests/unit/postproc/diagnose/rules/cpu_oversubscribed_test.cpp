#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::cpu_oversubscribed_test {
namespace {

using R = RuleRecording;

R recorded(double threads, double waited, double used) {
  R node;
  node.gauge("job.cpus_allowed", "", R::always(4));
  node.gauge("process.threads", "rank0", R::always(threads), "rank");
  node.counter("process.wait_time", "rank0", R::always(waited * 1e9), "rank");
  node.counter("process.cpu_time", "rank0", R::always(used * 1e9), "rank");
  return node;
}

TEST(RuleOversubscribed, SaysHowManyThreadsShareTheCpus) {
  const auto found = recorded(16, 12, 3.9).findings("cpu.oversubscribed");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_NE(found[0].sentence.find("16 threads of the job's process shared 4 cpus: on average 11.9 of them "
                                   "waited for a cpu and 3.86 ran."),
            std::string::npos)
      << found[0].sentence;
  EXPECT_NE(found[0].remedy.user.at(0).find("OMP_NUM_THREADS=4 "), std::string::npos) << found[0].remedy.user[0];
  EXPECT_EQ(recorded(8, 3, 3.9).findings("cpu.oversubscribed").at(0).severity, Severity::notice);
}

TEST(RuleOversubscribed, AsksForTheCpusThatItsThreadsWantedIfTheNodeHasThem) {
  const auto lines = [](const char* online) {
    R node = recorded(16, 12, 3.9);
    node.begin = {{"env.SLURM_JOB_ID", "7"}, {"cpu.online", online}};
    return node.findings("cpu.oversubscribed").at(0).remedy.user;
  };
  ASSERT_EQ(lines("0-63").size(), 2U);
  EXPECT_TRUE(lines("0-63")[1].starts_with("#SBATCH --cpus-per-task=16   # in place of fewer threads"));
  EXPECT_EQ(lines("0-7").size(), 1U) << "16 cpus on a node of 8";
}

TEST(RuleOversubscribed, CountsOneCpuAsOne) {
  R node;
  node.gauge("job.cpus_allowed", "", R::always(1)).gauge("process.threads", "rank0", R::always(7), "rank");
  node.counter("process.wait_time", "rank0", R::always(0.8e9), "rank");
  node.counter("process.cpu_time", "rank0", R::always(0.9e9), "rank");
  const auto found = node.findings("cpu.oversubscribed");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].runner_up.why_not.ends_with(" of the 1 cpu")) << found[0].runner_up.why_not;
}

R ranks(double threads_each, double waited_each, double used_each) {
  R node;
  node.gauge("job.cpus_allowed", "", R::always(4));
  for (const char* rank : {"rank0", "rank1", "rank2", "rank3"}) {
    node.gauge("process.threads", rank, R::always(threads_each), "rank");
    node.counter("process.wait_time", rank, R::always(waited_each * 1e9), "rank");
    node.counter("process.cpu_time", rank, R::always(used_each * 1e9), "rank");
  }
  return node;
}

TEST(RuleOversubscribed, SumsUpRanksOfSeveralThreadsEach) {
  const auto found = ranks(4, 2.9, 0.98).findings("cpu.oversubscribed");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("16 threads of 4 processes shared 4 cpus"), std::string::npos) << found[0].sentence;
  EXPECT_NE(found[0].remedy.user.at(0).find("OMP_NUM_THREADS=1 "), std::string::npos) << found[0].remedy.user[0];
  EXPECT_TRUE(ranks(4, 0.02, 0.98).findings("cpu.oversubscribed").empty()) << "threads that sleep";
  EXPECT_TRUE(ranks(1, 0.4, 0.6).findings("cpu.oversubscribed").empty()) << "loaders and ranks of one thread each";
}

/// 16 of 128 ranks are measured, which have these threads, on 128 cpus.
R wide(double threads_each, double waited_each, double used_by_job) {
  R node;
  node.gauge("job.cpus_allowed", "", R::always(128)).gauge("job.processes", "", R::always(128));
  node.counter("job.cpu_time", "", R::always(used_by_job * 1e9));
  for (int rank = 0; rank < 16; ++rank) {
    const std::string name = "rank" + std::to_string(rank);
    node.gauge("process.threads", name, R::always(threads_each), "rank");
    node.counter("process.wait_time", name, R::always(waited_each * 1e9), "rank");
    node.counter("process.cpu_time", name, R::always(used_by_job / 128 * 1e9), "rank");
  }
  return node;
}

TEST(RuleOversubscribed, JudgesMoreRanksThanAreMeasuredByThoseThatAre) {
  const auto found = wide(2, 1, 128).findings("cpu.oversubscribed");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("32 threads of 16 of the job's processes shared their part of the 128 cpus"),
            std::string::npos)
      << found[0].sentence;
  EXPECT_NE(found[0].remedy.user.at(0).find("OMP_NUM_THREADS=1 "), std::string::npos) << found[0].remedy.user[0];
  EXPECT_TRUE(wide(2, 1, 64).findings("cpu.oversubscribed").empty()) << "others had half of the cpus";
  EXPECT_TRUE(wide(2, 0.01, 128).findings("cpu.oversubscribed").empty()) << "a helper thread that sleeps";
  EXPECT_TRUE(wide(1, 0.1, 128).findings("cpu.oversubscribed").empty());
}

/// One process with as many threads as the node has cores, on eight cpus; only its main thread is measured.
R main_thread_of(double threads, double ran, double waited) {
  R node;
  node.gauge("job.cpus_allowed", "", R::always(8));
  node.gauge("process.threads", "rank0", R::always(threads), "rank");
  node.counter("process.run_time", "rank0", R::always(ran * 1e9), "rank");
  node.counter("process.wait_time", "rank0", R::always(waited * 1e9), "rank");
  node.counter("process.cpu_time", "rank0", R::always(8e9), "rank");
  return node;
}

TEST(RuleOversubscribed, TakesTheMainThreadForTheOthersWhereTheyAreNotMeasured) {
  const auto found = main_thread_of(160, 0.05, 0.95).findings("cpu.oversubscribed");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_NE(found[0].sentence.find("160 threads of the job's process shared 8 cpus: on average 150 of them waited for "
                                   "a cpu (estimated from main threads) and 7.92 ran."),
            std::string::npos)
      << found[0].sentence;
  EXPECT_TRUE(main_thread_of(160, 0.001, 0.01).findings("cpu.oversubscribed").empty()) << "it only waits for them";
  EXPECT_TRUE(main_thread_of(160, 0.9, 0.01).findings("cpu.oversubscribed").empty()) << "the others sleep";
}

TEST(RuleOversubscribed, IsSilentOnWhatOnlyLooksSo) {
  EXPECT_TRUE(recorded(64, 0.3, 3.9).findings("cpu.oversubscribed").empty()) << "threads that sleep";
  EXPECT_TRUE(recorded(4, 3, 3.9).findings("cpu.oversubscribed").empty()) << "as many as cpus: others are in the way";
  EXPECT_TRUE(recorded(16, 12, 1.5).findings("cpu.oversubscribed").empty()) << "others had the cpus";
  Finding narrow;
  narrow.id = "cpu.affinity_too_narrow";
  const std::vector<Finding> before{narrow};
  EXPECT_TRUE(recorded(16, 12, 3.9).findings("cpu.oversubscribed", before).empty());
}

TEST(RuleOversubscribed, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("cpu.oversubscribed")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::cpu_oversubscribed_test
