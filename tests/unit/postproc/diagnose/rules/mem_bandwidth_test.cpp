#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::mem_bandwidth_test {
namespace {

using R = RuleRecording;

struct Job {
  double traffic = 180e9;  // bytes/s of package0, a third of it written
  double stalls = 0.6;     // share of the cycles
  double remote = 0.02;    // share of the accesses
  double used = 8;         // cpus, of the 8.2 that are busy
};

R node_with(const Job& job) {
  R node;
  node.counter("platform.memory_read", "package0", R::always(job.traffic * 2 / 3))
      .counter("platform.memory_written", "package0", R::always(job.traffic / 3))
      .counter("platform.memory_read", "package1", R::always(2e9))
      .counter("platform.memory_written", "package1", R::always(1e9))
      .counter("pmu.cycles", "", R::always(4e9))
      .counter("pmu.instructions", "", R::always(2e9))
      .counter("pmu.l3_stalls", "", R::always(job.stalls * 4e9))
      .counter("pmu.llc_misses", "", R::always(1e8))
      .counter("pmu.remote_dram", "", R::always(job.remote * 1e8))
      .counter("job.cpu_time", "", R::always(job.used * 1e9))
      .counter("cpu.user", "cpu0", R::always(8e9))
      .counter("cpu.system", "cpu0", R::always(0.2e9));
  return node;
}

std::vector<Finding> of(const R& node, double stream = 200) {
  const Telemetry telemetry = node.with_derived();
  const RuleContext::Node all{telemetry, node.detection, node.begin, node.end, node.events};
  const std::vector<RuleContext::Override> site{{"stream", stream}};
  const RuleSpec* spec = find_rule("mem.bw_saturated");
  return spec->check(RuleContext(*spec, all, {}, site));
}

TEST(RuleBandwidth, TellsThatTheLimitIsReached) {
  const auto found = of(node_with({}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::info) << "a limit is no fault";
  EXPECT_FALSE(found[0].impact.seconds.has_value());
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"package0"});
  EXPECT_NE(found[0].sentence.find("Limit reached: package0 of n2 moved"), std::string::npos) << found[0].sentence;
  EXPECT_NE(found[0].sentence.find("60 % of the cycles waited for memory"), std::string::npos) << found[0].sentence;
}

TEST(RuleBandwidth, IsSilentBelowTheLimitAndOnTrafficThatNobodyWaitsFor) {
  EXPECT_TRUE(of(node_with({.traffic = 100e9})).empty());
  EXPECT_TRUE(of(node_with({.stalls = 0.05})).empty());
}

TEST(RuleBandwidth, LeavesOtherCausesToTheirRules) {
  EXPECT_TRUE(of(node_with({.remote = 0.6})).empty()) << "memory of the other socket comes first";
  EXPECT_TRUE(of(node_with({.used = 2})).empty()) << "others on the node move the data";
}

TEST(RuleBandwidth, IsSilentOnAShortBurst) {
  R node = node_with({});
  for (const std::size_t channel : {std::size_t{0}, std::size_t{1}}) {
    auto series = node.telemetry.series(channel);
    for (std::size_t t = 100; t < series.size(); ++t) series[t] /= 10;
  }
  EXPECT_TRUE(of(node).empty());
}

TEST(RuleBandwidth, SaysWhatItDoesNotKnow) {
  EXPECT_THROW(static_cast<void>(of(R())), Unavailable);
  EXPECT_THROW(static_cast<void>(of(node_with({}), 0)), Unavailable);
  try {
    static_cast<void>(of(node_with({}), 0));
  } catch (const Unavailable& missing) {
    EXPECT_NE(std::string(missing.what()).find("not known"), std::string::npos) << missing.what();
  }
}

}  // namespace
}  // namespace reveal::tests::mem_bandwidth_test
