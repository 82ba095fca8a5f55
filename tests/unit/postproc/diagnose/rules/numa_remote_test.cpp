// numa.mem_remote: memory bound to the wrong node, and nodes on which all is well.
#include <gtest/gtest.h>

#include <algorithm>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::numa_remote_test {
namespace {

using R = RuleRecording;

/// Pages a second given out by node0 to its own cpus, on which the job runs, and by node1 to those.
R node_with(double local, double other, double interleaved = 0) {
  R node;
  node.counter("numa_local_node", "node0", R::always(local))
      .counter("numa_local_node", "node1", R::always(100))
      .counter("numa_other_node", "node0", R::always(0))
      .counter("numa_other_node", "node1", R::always(other))
      .counter("numa_interleave_hit", "node1", R::always(interleaved));
  node.begin = {{"job.cpus_allowed", "0-1"},
                {"numa.node0.cpus", "0-1"},
                {"numa.node0.distance", "10 21"},
                {"numa.node1.cpus", "2-3"},
                {"numa.node1.distance", "21 10"}};
  return node;
}

/// With the name of a program to put into the lines to be typed.
std::vector<Finding> findings_of(const R& node, std::string_view command) {
  const RuleContext::Node all{node.telemetry, node.detection, node.begin, node.end, node.events, 0, {}, command};
  const RuleSpec* spec = find_rule("numa.mem_remote");
  return spec->check(RuleContext(*spec, all, {}, {}));
}

bool has_line(const std::vector<std::string>& lines, std::string_view part) {
  return std::any_of(lines.begin(), lines.end(),
                     [part](const std::string& line) { return line.find(part) != std::string::npos; });
}

TEST(RuleNumaRemote, SeesMemoryBoundToAnotherNode) {
  const auto found = node_with(500, 4000).findings("numa.mem_remote");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_FALSE(found[0].impact.seconds.has_value());
  // Not of 4600: those that node1 gave to its own cpus are not the job's, which runs on node0.
  EXPECT_NEAR(found[0].evidence.at(0).observed.value_or(0), 4000.0 / 4500, 0.001);
  EXPECT_NEAR(found[0].evidence.at(1).observed.value_or(0), 4000.0 * 120 * 4096, 2e8);
  EXPECT_NE(found[0].sentence.find("only on node 0"), std::string::npos);
}

TEST(RuleNumaRemote, BelievesWhereThePagesAreMoreThanWhatTheNodeGaveOut) {
  const auto with_pages = [](double near, double far, double resident = 5e9) {
    R node = node_with(500, 4000);
    node.gauge("process.rss", "rank0", R::always(resident));
    node.gauge("process.numa_bytes", "rank0/node0", R::always(near))
        .gauge("process.numa_bytes", "rank0/node1", [far](double second) { return second < 40 ? std::nan("") : far; });
    return node.findings("numa.mem_remote");
  };
  EXPECT_TRUE(with_pages(8e9, 1e9).empty()) << "what others were given is theirs";
  const auto found = with_pages(1e9, 3e9);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].evidence.at(0).metric, "process.numa_bytes");
  EXPECT_NEAR(found[0].evidence.at(0).observed.value_or(0), 0.75, 1e-9);
  EXPECT_NEAR(found[0].evidence.at(1).observed.value_or(0), 3e9, 1);
}

TEST(RuleNumaRemote, SaysWhenNothingIsBound) {
  R node = node_with(500, 4000);
  node.begin[0].second = "0-3";
  EXPECT_NE(node.findings("numa.mem_remote").at(0).sentence.find("may run on 2 nodes"), std::string::npos);
}

TEST(RuleNumaRemote, IsSilentOnLocalLittleAndInterleavedMemory) {
  EXPECT_TRUE(node_with(40'000, 4000).findings("numa.mem_remote").empty());
  EXPECT_TRUE(node_with(10, 200).findings("numa.mem_remote").empty());
  EXPECT_TRUE(node_with(500, 4000, 3950).findings("numa.mem_remote").empty());
}

TEST(RuleNumaRemote, IsSilentWithinASocketAndOnOneNode) {
  R socket = node_with(500, 4000);
  socket.begin[2].second = "10 11";
  socket.begin[4].second = "11 10";
  EXPECT_TRUE(socket.findings("numa.mem_remote").empty());
  R single = node_with(500, 4000);
  single.begin.resize(3);
  EXPECT_TRUE(single.findings("numa.mem_remote").empty());
}

TEST(RuleNumaRemote, TellsAFullNodeFromAWrongBinding) {
  R bound = node_with(500, 4000);
  bound.counter("numa_foreign", "node0", R::always(0));
  const auto wrong = findings_of(bound, "solver");
  ASSERT_EQ(wrong.size(), 1U);
  EXPECT_NE(wrong[0].sentence.find("That node was not full"), std::string::npos) << wrong[0].sentence;
  EXPECT_TRUE(has_line(wrong[0].remedy.user, "--membind=0")) << "the node of its cpus is known";
  EXPECT_FALSE(has_line(wrong[0].remedy.user, "--interleave"));

  R full = node_with(500, 4000);
  full.counter("numa_foreign", "node0", R::always(4000));
  full.gauge("numa_mem.free", "node0", R::always(40e6)).gauge("numa_mem.inactive_file", "node0", R::always(3e9));
  const auto spill = findings_of(full, "solver");
  ASSERT_EQ(spill.size(), 1U);
  EXPECT_NE(spill[0].sentence.find(
                "Node 0 was full: the kernel had to allocate 1.81 GiB on other nodes instead (least free memory "
                "there 38.1 MiB, page cache 2.79 GiB)"),
            std::string::npos)
      << spill[0].sentence;
  EXPECT_FALSE(has_line(spill[0].remedy.user, "--membind")) << "bound to a full node it would be killed";
  EXPECT_TRUE(has_line(spill[0].remedy.user, "--interleave"));
  EXPECT_TRUE(has_line(spill[0].remedy.admin, "drop_caches"));
}

TEST(RuleNumaRemote, TakesAllocationsOfTheWholeNodeForNoMore) {
  const auto of_node = node_with(500, 4000).findings("numa.mem_remote");
  ASSERT_EQ(of_node.size(), 1U);
  EXPECT_EQ(of_node[0].confidence, Confidence::possible) << "other programs allocate, too, and pages may have moved";
  EXPECT_TRUE(
      of_node[0].sentence.starts_with("89 % of the memory allocated by programs on n2 (1.81 GiB) was allocated "
                                      "on another NUMA node than the cpus that requested it."))
      << of_node[0].sentence;
  R job = node_with(500, 0);
  job.gauge("memory_numa.anon", "node0", R::always(1e9)).gauge("memory_numa.anon", "node1", R::always(3e9));
  const auto of_job = job.findings("numa.mem_remote");
  ASSERT_EQ(of_job.size(), 1U);
  EXPECT_EQ(of_job[0].confidence, Confidence::likely);
  EXPECT_TRUE(
      of_job[0].sentence.starts_with("75 % of the memory used by the job on n2 (2.79 GiB) is on another NUMA "
                                     "node than the cpus that use it."))
      << of_job[0].sentence;
}

TEST(RuleNumaRemote, DoesNotCallANodeEmptyThatWasFullAtTimes) {
  R node = node_with(500, 4000);
  node.counter("numa_foreign", "node0", R::always(1000));
  const auto found = node.findings("numa.mem_remote");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence.find("never had to"), std::string::npos) << found[0].sentence;
  EXPECT_NE(found[0].sentence.find("Node 0 was full at times: the kernel had to allocate 464 MiB on other nodes."),
            std::string::npos)
      << found[0].sentence;
}

TEST(RuleNumaRemote, ClaimsNoReasonThatWasNotMeasured) {
  const auto found = node_with(500, 4000).findings("numa.mem_remote");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("Whether the node was full was not measured"), std::string::npos);
  EXPECT_NE(found[0].impact.how.find("not known"), std::string::npos) << found[0].impact.how;
}

TEST(RuleNumaRemote, ComparesWhatProcessorsCountedBeforeAndAfter) {
  R node = node_with(500, 4000);
  const auto from_40 = [](double before, double after) {
    return [=](double second) { return second >= 40 && second < 100 ? after : before; };
  };
  node.counter("pmu.cycles", "", R::always(4e9))
      .counter("pmu.instructions", "", from_40(8e9, 4e9))
      .counter("pmu.l3_stalls", "", from_40(0.4e9, 2e9))
      .counter("pmu.llc_misses", "", R::always(1e7))
      .counter("pmu.remote_dram", "", from_40(0.1e7, 0.9e7))
      .counter("platform.memory_read", "package0", R::always(2e9))
      .counter("platform.memory_written", "package0", R::always(1e9))
      .counter("job.cpu_time", "", R::always(2e9));
  const auto found = node.findings("numa.mem_remote");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, FindingKind::anomaly);
  EXPECT_EQ(found[0].severity, Severity::critical) << "a quarter of the run and more";
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 40, 1);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 100, 1);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 30, 1.5) << "60 s at half the instructions per cycle";
  EXPECT_NE(found[0].sentence.find("1.01 instructions per cycle (otherwise 2)"), std::string::npos)
      << found[0].sentence;
  EXPECT_NE(found[0].sentence.find("50 % (otherwise 10 %) of the cycles waited for memory"), std::string::npos)
      << found[0].sentence;
  for (const char* metric : {"pmu.ipc", "pmu.l3_stall_ratio", "pmu.remote_share", "platform.memory_bandwidth"}) {
    EXPECT_TRUE(std::any_of(found[0].evidence.begin(), found[0].evidence.end(), [&](const Evidence& each) {
      return each.metric == metric && each.expected;
    })) << metric;
  }
}

TEST(RuleNumaRemote, CallsNoOtherPhaseOfTheProgramACost) {
  R node = node_with(500, 4000);
  const auto from_40 = [](double before, double after) {
    return [=](double second) { return second >= 40 ? after : before; };
  };
  node.counter("pmu.cycles", "", R::always(4e9))
      .counter("pmu.instructions", "", from_40(8e9, 4e9))
      .counter("pmu.l3_stalls", "", R::always(0.4e9))  // it waits no more than before
      .counter("pmu.llc_misses", "", R::always(1e7))
      .counter("pmu.remote_dram", "", from_40(0.1e7, 0.9e7))
      .counter("job.cpu_time", "", R::always(2e9));
  const auto found = node.findings("numa.mem_remote");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_FALSE(found[0].impact.seconds.has_value());
  EXPECT_NE(found[0].impact.how.find("none seen"), std::string::npos) << found[0].impact.how;
}

TEST(RuleNumaRemote, TellsWhatWasCountedInARunThatWasRemoteThroughout) {
  R node = node_with(500, 4000);
  node.counter("pmu.cycles", "", R::always(4e9)).counter("pmu.instructions", "", R::always(2e9));
  const auto found = node.findings("numa.mem_remote");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("At that time: 0.5 instructions per cycle."), std::string::npos)
      << found[0].sentence;
  EXPECT_FALSE(found[0].evidence.back().expected.has_value()) << "there is nothing to compare it with";
}

TEST(RuleNumaRemote, FollowsEachRankToItsOwnNode) {
  const auto ranks = [](double of_rank1_on_node0) {
    R node = node_with(500, 4000);
    node.begin[0].second = "0-3";
    node.gauge("process.rss", "rank0", R::always(2e9), "rank").gauge("process.rss", "rank1", R::always(2e9), "rank");
    node.gauge("process.last_cpu", "rank0", R::always(1), "rank")
        .gauge("process.last_cpu", "rank1", R::always(2), "rank");
    node.gauge("process.cpus_allowed", "rank0", R::always(2), "rank");
    node.gauge("process.cpus_allowed", "rank1", R::always(2), "rank");
    node.gauge("process.numa_bytes", "rank0/node0", R::always(2e9), "rank");
    node.gauge("process.numa_bytes", "rank1/node0", R::always(of_rank1_on_node0), "rank");
    node.gauge("process.numa_bytes", "rank1/node1", R::always(2e9 - of_rank1_on_node0), "rank");
    return node.findings("numa.mem_remote");
  };
  EXPECT_TRUE(ranks(0).empty()) << "each has its memory next to its cpus";
  const auto found = ranks(1.5e9);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].evidence.at(0).observed.value_or(0), 1.5 / 4, 1e-6);
}

TEST(RuleNumaRemote, TakesTheControlGroupsPagesWhereProcessesWereNotAsked) {
  R node = node_with(500, 0);
  node.gauge("memory_numa.anon", "node0", R::always(1e9)).gauge("memory_numa.anon", "node1", R::always(3e9));
  const auto found = node.findings("numa.mem_remote");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].evidence.at(0).metric, "memory_numa.anon");
  EXPECT_NEAR(found[0].evidence.at(0).observed.value_or(0), 0.75, 1e-6);
}

TEST(RuleNumaRemote, IsSilentOnPageCacheThatLiesWhereThereWasRoom) {
  R reading = node_with(500, 4000);
  reading.counter("vmstat.pgpgin", "", R::always(4000 * 4.0));  // KiB: a data loader on a file
  EXPECT_TRUE(reading.findings("numa.mem_remote").empty());
  R served = node_with(500, 4000);
  served.gauge("vmstat.nr_file_pages", "", [](double second) { return 4000 * second; });  // from a file server
  EXPECT_TRUE(served.findings("numa.mem_remote").empty());
}

TEST(RuleNumaRemote, HasNothingAgainstMemoryWithoutCpus) {
  R node = node_with(500, 0);
  node.begin.emplace_back("numa.node2.distance", "10 14 10");
  node.begin[2].second = "10 21 14";
  node.begin[4].second = "21 10 24";
  node.gauge("memory_numa.anon", "node0", R::always(1e9)).gauge("memory_numa.anon", "node2", R::always(3e9));
  EXPECT_TRUE(node.findings("numa.mem_remote").empty()) << "HBM and CXL are filled on purpose";
}

TEST(RuleNumaRemote, SaysWhatItCouldNotMeasure) {
  R node;
  node.begin = node_with(1, 1).begin;
  EXPECT_THROW(static_cast<void>(node.findings("numa.mem_remote")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::numa_remote_test
