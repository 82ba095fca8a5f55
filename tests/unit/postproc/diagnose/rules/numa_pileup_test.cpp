// numa.single_node_pileup: a full NUMA node beside an empty one, by memory and by cpus.
#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::numa_pileup_test {
namespace {

using R = RuleRecording;
constexpr double kGiB = 1073741824;

/// 8 GiB each; free memory and page cache in GiB.
struct Node {
  R::Course free;
  double cache = 0;
};

R machine(const Node& first, const Node& second, const R::Course& scanned, const R::Course& waits) {
  R node;
  node.begin = {{"job.cpus_allowed", "0-3"}, {"numa.node0.cpus", "0-1"},       {"numa.node0.distance", "10 21"},
                {"numa.node1.cpus", "2-3"},  {"numa.node1.distance", "21 10"}, {"vm.zone_reclaim_mode", "1"}};
  for (const auto& [name, each] : {std::pair("node0", &first), std::pair("node1", &second)}) {
    node.gauge("numa_mem.total", name, R::always(8 * kGiB))
        .gauge("numa_mem.free", name, [free = each->free](double time) { return free(time) * kGiB; })
        .gauge("numa_mem.inactive_file", name, R::always(each->cache * kGiB));
  }
  node.counter("vmstat.pgscan_direct", "", scanned).counter("pressure.memory_some", "", waits);
  return node;
}

const R::Course kFills = R::event(4, 0.1);  // GiB free
const R::Course kScans = R::event(0, 20e3);
const R::Course kWaits = R::event(0, 0.5e9);

TEST(RuleNumaPileup, FindsANodeThatIsFullBesideAnEmptyOne) {
  const R node = machine({kFills}, {R::always(7)}, kScans, kWaits);
  const auto found = node.findings("numa.single_node_pileup");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"node0"});
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 50, 0.2);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 65, 0.2);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 7.5, 0.5);
  EXPECT_TRUE(found[0].impact.at_most);
  EXPECT_FALSE(found[0].evidence.at(1).expected.has_value()) << "nobody knows how much would be usual";
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].confidence, Confidence::possible) << "it was not seen whose waiting it was";
  ASSERT_FALSE(found[0].remedy.admin.empty());
  EXPECT_NE(found[0].remedy.admin[0].find("it is 1"), std::string::npos) << found[0].remedy.admin[0];
}

TEST(RuleNumaPileup, LeavesAJobAtTheLimitOfItsControlGroupToThatLimit) {
  R node = machine({kFills}, {R::always(7)}, kScans, kWaits);
  node.gauge("group.memory", "job", R::always(3.9 * kGiB)).gauge("group.memory_limit", "job", R::always(4 * kGiB));
  EXPECT_TRUE(node.findings("numa.single_node_pileup").empty());
}

TEST(RuleNumaPileup, BelievesTheJobsOwnWaitingMore) {
  R node = machine({kFills}, {R::always(7)}, kScans, R::always(0));
  node.counter("cgroup.memory_some", "", kWaits);
  EXPECT_EQ(node.findings("numa.single_node_pileup").at(0).confidence, Confidence::likely);
}

TEST(RuleNumaPileup, NamesHugePagesThatFillTheNode) {
  R node = machine({kFills}, {R::always(7)}, kScans, kWaits);
  node.gauge("hugepages.free", "node0/2048kB", R::always(2 * kGiB));
  const auto found = node.findings("numa.single_node_pileup");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("2 GiB of it are unused huge pages"), std::string::npos) << found[0].sentence;
}

TEST(RuleNumaPileup, IsSilentOnPageCacheAndWhereBothAreFull) {
  EXPECT_TRUE(machine({kFills, 5}, {R::always(7)}, kScans, kWaits).findings("numa.single_node_pileup").empty())
      << "page cache makes room when it is asked to";
  EXPECT_TRUE(machine({kFills}, {R::always(1)}, kScans, kWaits).findings("numa.single_node_pileup").empty())
      << "the machine is full";
}

TEST(RuleNumaPileup, IsSilentWhereNobodyHadToWait) {
  EXPECT_TRUE(machine({kFills}, {R::always(7)}, R::always(0), R::always(0)).findings("numa.single_node_pileup").empty())
      << "a job that fits is welcome to fill its node";
  EXPECT_TRUE(machine({kFills}, {R::always(7)}, kScans, R::always(0)).findings("numa.single_node_pileup").empty());
  EXPECT_TRUE(machine({kFills}, {R::always(7)}, R::always(0), kWaits).findings("numa.single_node_pileup").empty());
}

/// Two ranks on cpu0, one process that may use all; how busy each cpu is.
R ranks_on(double cpu0, double cpu2, double waited, double allowed_per_rank = 1) {
  R node = machine({R::always(4)}, {R::always(4)}, R::always(0), R::always(0));
  const double busy[] = {cpu0, cpu0, cpu2, cpu2};
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string name = "cpu" + std::to_string(cpu);
    node.gauge("job.cpu_allowed", name, R::always(1)).counter("cpu.user", name, R::always(busy[cpu] * 1e9));
    node.counter("cpu.nice", name, R::always(0)).counter("cpu.system", name, R::always(0));
  }
  node.counter("job.cpu_time", "", R::always((2 * cpu0 + 2 * cpu2) * 1e9))
      .counter("job.wait_time", "", R::always(waited * 1e9))
      .gauge("job.cpus_allowed", "", R::always(4));
  for (const char* rank : {"rank0", "rank1"}) {
    node.gauge("process.cpus_allowed", rank, R::always(allowed_per_rank), "rank");
  }
  return node;
}

TEST(RuleNumaPileup, FindsRanksThatCrowdOnTheCpusOfOneNode) {
  const auto found = ranks_on(0.98, 0.05, 2).findings("numa.single_node_pileup");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("are concentrated on NUMA node 0"), std::string::npos) << found[0].sentence;
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 120 * 2 / (2 + 2.06), 3);
  EXPECT_EQ(found[0].severity, Severity::critical);
}

TEST(RuleNumaPileup, IsSilentWhereRanksAreSpreadOrDoNotWaitOrMayMove) {
  EXPECT_TRUE(ranks_on(0.98, 0.9, 2).findings("numa.single_node_pileup").empty());
  EXPECT_TRUE(ranks_on(0.98, 0.05, 0.01).findings("numa.single_node_pileup").empty());
  EXPECT_TRUE(ranks_on(0.98, 0.05, 2, 4).findings("numa.single_node_pileup").empty());
}

TEST(RuleNumaPileup, SaysWhatWasNotMeasured) {
  R node;
  node.begin = machine({kFills}, {kFills}, kScans, kWaits).begin;
  EXPECT_THROW(static_cast<void>(node.findings("numa.single_node_pileup")), Unavailable);
  node.begin.resize(3);
  EXPECT_TRUE(node.findings("numa.single_node_pileup").empty()) << "with one NUMA node there is no other";
}

}  // namespace
}  // namespace reveal::tests::numa_pileup_test
