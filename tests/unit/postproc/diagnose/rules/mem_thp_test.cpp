// mem.thp_stalls and mem.thp_off_tlb: programs that wait for huge pages, and programs that have none.
#include <gtest/gtest.h>

#include <algorithm>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::mem_thp_test {
namespace {

using R = RuleRecording;

bool says(const std::vector<std::string>& lines, std::string_view part) {
  return std::any_of(lines.begin(), lines.end(),
                     [part](const std::string& line) { return line.find(part) != std::string::npos; });
}

R node_with(const R::Course& compactions, const R::Course& waits, const char* enabled = "[always] madvise never",
            const char* defrag = "[always] defer defer+madvise madvise never") {
  R node;
  node.begin = {{"vm.transparent_hugepage", enabled}, {"vm.transparent_hugepage_defrag", defrag}};
  node.counter("vmstat.compact_stall", "", compactions)
      .counter("vmstat.thp_fault_alloc", "", R::always(100))
      .counter("vmstat.thp_fault_fallback", "", compactions)
      .counter("vmstat.pgscan_direct", "", R::always(10))
      .counter("pressure.memory_some", "", waits);
  return node;
}

TEST(RuleThpStalls, FindsTheIntervalInWhichProgramsWaitedForHugePages) {
  const R node = node_with(R::event(0, 400), R::event(0, 0.5e9));
  const auto found = node.findings("mem.thp_stalls");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 50, 1);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).end_utc_ns), 65, 1);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 7.5, 0.5);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_TRUE(says(found[0].remedy.admin, "it is always")) << found[0].remedy.admin.at(0);
  EXPECT_FALSE(says(found[0].remedy.user, "NUMPY_MADVISE_HUGEPAGE")) << "every program waits, whatever it asks for";
}

TEST(RuleThpStalls, FindsAJobThatWaitsAllTheTime) {
  R node = node_with(R::always(400), R::always(0.5e9), "always [madvise] never",
                     "always defer defer+madvise [madvise] never");
  node.events.push_back({.code = "process_begin", .text = "rank0 python3"});
  const auto found = node.findings("mem.thp_stalls");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 60, 3);
  EXPECT_FALSE(found[0].evidence.at(0).expected.has_value()) << "there was no time without it";
  EXPECT_TRUE(says(found[0].remedy.user, "NUMPY_MADVISE_HUGEPAGE"));
}

TEST(RuleThpStalls, AdvisesASettingThatTheNodeDoesNotHave) {
  const auto advised = [](const char* enabled, const char* defrag) {
    const auto found = node_with(R::event(0, 400), R::event(0, 0.5e9), enabled, defrag).findings("mem.thp_stalls");
    return found.empty() ? "" : found[0].remedy.admin.at(0);
  };
  const std::string rest =
      " > /sys/kernel/mm/transparent_hugepage/defrag   # changes the node until its next "
      "boot: programs wait less for huge pages; it is ";
  EXPECT_EQ(advised("[always] madvise never", "[always] defer defer+madvise madvise never"),
            "echo defer+madvise" + rest + "always");
  EXPECT_EQ(advised("[always] madvise never", "always defer [defer+madvise] madvise never"),
            "echo defer" + rest + "defer+madvise");
  EXPECT_EQ(advised("always [madvise] never", "[always] defer defer+madvise madvise never"),
            "echo defer" + rest + "always")
      << "only programs that use madvise() wait";
}

TEST(RuleThpStalls, IsSilentWhereNobodyWaitedOrHardlyAny) {
  EXPECT_TRUE(node_with(R::event(0, 400), R::always(0)).findings("mem.thp_stalls").empty());
  EXPECT_TRUE(node_with(R::event(0, 5), R::event(0, 0.5e9)).findings("mem.thp_stalls").empty());
}

TEST(RuleThpStalls, IsSilentWhereNoProgramWaitsForHugePages) {
  const auto with = [](const char* enabled, const char* defrag) {
    return node_with(R::event(0, 400), R::event(0, 0.5e9), enabled, defrag).findings("mem.thp_stalls").size();
  };
  EXPECT_EQ(with("always madvise [never]", "[always] defer defer+madvise madvise never"), 0U);
  EXPECT_EQ(with("[always] madvise never", "always [defer] defer+madvise madvise never"), 0U);
  EXPECT_EQ(with("[always] madvise never", "always defer [defer+madvise] madvise never"), 1U);
}

TEST(RuleThpStalls, LeavesMemoryThatIsShortToItsOwnRule) {
  R node = node_with(R::event(0, 400), R::event(0, 0.5e9));
  node.counter("memory_stat.pgscan", "", R::event(0, 20e3));
  EXPECT_TRUE(node.findings("mem.thp_stalls").empty());
}

TEST(RuleThpStalls, IsSilentOnPiecesThatDevicesAskFor) {
  R node = node_with(R::event(0, 400), R::event(0, 0.5e9));
  for (double& value : node.telemetry.series(1)) value = 0;
  for (double& value : node.telemetry.series(2)) value = 0;
  EXPECT_TRUE(node.findings("mem.thp_stalls").empty());
}

TEST(RuleThpStalls, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("mem.thp_stalls")), Unavailable);
  R no_setting = node_with(R::event(0, 400), R::event(0, 0.5e9));
  no_setting.begin.clear();
  EXPECT_THROW(static_cast<void>(no_setting.findings("mem.thp_stalls")), Unavailable);
}

R heap_of(double bytes, double huge, const char* enabled) {
  R node;
  node.begin = {{"vm.transparent_hugepage", enabled}};
  node.gauge("cgroup.memory_anon", "", R::always(bytes)).gauge("memory_stat.anon_thp", "", R::always(huge));
  return node;
}

R& stalled(R& node, double share) {
  return node.counter("pmu.cycles", "", R::always(4e9)).counter("pmu.backend_stalls", "", R::always(share * 4e9));
}

TEST(RuleThpOff, MentionsALargeJobWithoutHugePages) {
  const auto found = heap_of(40e9, 0, "always madvise [never]").findings("mem.thp_off_tlb");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::info) << "nobody measured what it costs";
  EXPECT_FALSE(found[0].impact.seconds.has_value());
  EXPECT_TRUE(says(found[0].remedy.admin, "echo madvise"));
}

TEST(RuleThpOff, AdvisesTorchToAskForHugePagesOnlyWhereTheKernelGivesThem) {
  const auto advised = [](const char* enabled) {
    R node = heap_of(40e9, 0, enabled);
    node.begin.emplace_back("job.libraries", "torch");
    const auto found = stalled(node, 0.5).findings("mem.thp_off_tlb");
    return !found.empty() && says(found[0].remedy.user, "THP_MEM_ALLOC_ENABLE");
  };
  EXPECT_TRUE(advised("always [madvise] never"));
  EXPECT_FALSE(advised("always madvise [never]"));
}

TEST(RuleThpOff, AsksForASignOfWaitingWhereProgramsOnlyHaveToAsk) {
  R quiet = heap_of(40e9, 1e9, "always [madvise] never");
  EXPECT_TRUE(quiet.findings("mem.thp_off_tlb").empty()) << "the default of most systems";
  R waits = heap_of(40e9, 1e9, "always [madvise] never");
  const auto found = stalled(waits, 0.5).findings("mem.thp_off_tlb");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("50 % of the cycles waited"), std::string::npos) << found[0].sentence;
  EXPECT_TRUE(says(found[0].remedy.user, "glibc.malloc.hugetlb=1"));
  R computes = heap_of(40e9, 0, "always madvise [never]");
  EXPECT_TRUE(stalled(computes, 0.1).findings("mem.thp_off_tlb").empty()) << "its cycles do not wait";
}

TEST(RuleThpOff, IsSilentOnSmallJobsAndOnThoseThatHaveThem) {
  EXPECT_TRUE(heap_of(2e9, 0, "always madvise [never]").findings("mem.thp_off_tlb").empty());
  EXPECT_TRUE(heap_of(40e9, 30e9, "always madvise [never]").findings("mem.thp_off_tlb").empty());
  EXPECT_TRUE(heap_of(40e9, 0, "[always] madvise never").findings("mem.thp_off_tlb").empty());
}

TEST(RuleThpOff, TakesTheNodesMemoryOnlyIfItIsTheJobs) {
  const auto node_wide = [](double of_job) {
    R node;
    node.begin = {{"vm.transparent_hugepage", "always madvise [never]"}};
    node.gauge("mem.anon_pages", "", R::always(40e9)).gauge("mem.anon_huge_pages", "", R::always(0));
    node.gauge("process.rss", "rank0", R::always(of_job), "rank");
    return node.findings("mem.thp_off_tlb").size();
  };
  EXPECT_EQ(node_wide(1e9), 0U);
  EXPECT_EQ(node_wide(30e9), 1U);
}

TEST(RuleThpOff, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("mem.thp_off_tlb")), Unavailable);
  R no_memory;
  no_memory.begin = {{"vm.transparent_hugepage", "always madvise [never]"}};
  EXPECT_THROW(static_cast<void>(no_memory.findings("mem.thp_off_tlb")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::mem_thp_test
