// cpu.smt_shared: threads two on a core beside idle cores, and healthy jobs that share cores or cannot help it.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/core_threads.h"
#include "rule_recording.h"

namespace reveal::tests::cpu_smt_test {
namespace {

using R = RuleRecording;

/// Four cores with two threads each (0 and 4, 1 and 5, ...); the cpus that are busy, and the job's use of them.
R node_with(const std::vector<int>& busy, double job_cpus, const char* owned = "0-7", double second_share = 1) {
  R node;
  for (int cpu = 0; cpu < 8; ++cpu) {
    const bool full = std::find(busy.begin(), busy.end(), cpu) != busy.end();
    for (const char* metric : {"cpu.user", "cpu.nice", "cpu.system"}) {
      const double level = std::string_view(metric) == "cpu.user" ? (full ? 1.0 : 0.02) : 0;
      node.counter(metric, "cpu" + std::to_string(cpu),
                   [=](double second) { return 1e9 * (second < 120 * second_share ? level : 0.02); });
    }
  }
  node.counter("job.cpu_time", "", R::always(job_cpus * 1e9));
  node.begin = {{"job.cpus_allowed", owned}, {"job.cpus_owned", owned}, {"cpu.smt", "on"}};
  node.begin.emplace_back("cpu_threads.0", "0,4 1,5");
  node.begin.emplace_back("cpu_threads.1", "2,6 3,7");
  return node;
}

TEST(RuleSmtShared, NamesTheCoreAndHowMuchWasFree) {
  const auto found = node_with({0, 4}, 2).findings("cpu.smt_shared");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_EQ(found[0].instances, (std::vector<std::string>{"cpu0", "cpu4"}));
  EXPECT_NE(found[0].sentence.find("shared 1 core of n2 for 100 % of the run, two on each, while 3 of"),
            std::string::npos)
      << found[0].sentence;
}

TEST(RuleSmtShared, IsSilentWhereCoresAreNotSharedOrNoneIsFree) {
  const auto silent = [](const R& node) { return node.findings("cpu.smt_shared").empty(); };
  EXPECT_TRUE(silent(node_with({0, 1}, 2))) << "one thread on each core";
  EXPECT_TRUE(silent(node_with({0, 1, 2, 3, 4, 5, 6, 7}, 8))) << "a job that fills the node";
  EXPECT_TRUE(silent(node_with({0, 4}, 2, "0,4"))) << "the job has no other core";
  EXPECT_TRUE(silent(node_with({0, 4}, 0.5))) << "somebody else's threads";
  EXPECT_TRUE(silent(node_with({0, 4}, 2, "0-7", 0.3))) << "a phase";
  R without = node_with({0, 4}, 2);
  without.begin = {{"job.cpus_allowed", "0-7"}, {"cpu.smt", "notsupported"}};
  EXPECT_TRUE(silent(without));
}

TEST(RuleSmtShared, SeesALongJobInLongSteps) {
  R node = node_with({0, 4}, 2);
  node.telemetry.step_seconds = 3;
  for (double& value : node.telemetry.values) value *= 30;
  EXPECT_EQ(node.findings("cpu.smt_shared").size(), 1U);
}

TEST(RuleSmtShared, SaysWhatItCouldNotMeasure) {
  EXPECT_THROW(static_cast<void>(R().findings("cpu.smt_shared")), Unavailable);
  R unknown;
  unknown.begin = {{"job.cpus_allowed", "0-7"}};
  EXPECT_THROW(static_cast<void>(unknown.findings("cpu.smt_shared")), Unavailable);
  R large = node_with({0, 4}, 2);
  for (Channel& channel : large.telemetry.channels) {
    if (!channel.instance.empty()) channel.instance = "job_cpus";
  }
  EXPECT_THROW(static_cast<void>(large.findings("cpu.smt_shared")), Unavailable);
}

TEST(CoreThreads, CountsCores) {
  const R node = node_with({}, 0);
  const RuleContext::Node facts{node.telemetry, node.detection, node.begin, node.end, node.events};
  const RuleContext context(*find_rule("cpu.smt_shared"), facts, {}, {});
  EXPECT_EQ(threads_of_cores(context).size(), 4U);
  EXPECT_EQ(cores_of(context, {0, 1, 2, 3, 4, 5, 6, 7}), 4U);
  EXPECT_EQ(cores_of(context, {0, 4, 1}), 2U);
  EXPECT_EQ(cores_of(context, {9}), 1U);
  EXPECT_EQ(cores_of(context, {}), 0U);
}

}  // namespace
}  // namespace reveal::tests::cpu_smt_test
