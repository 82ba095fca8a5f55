#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::cpu_clock_under_load_test {
namespace {

using R = RuleRecording;

/// A package that draws `watts` from 20 s on, half of it before; the limit and the rated power in watts.
std::vector<Finding> package(double watts, const char* limit, const char* made_for, const char* metric,
                             const char* instance) {
  R node;
  node.counter(
      metric, instance, [=](double second) { return second < 20 ? watts / 2 * 1e6 : watts * 1e6; }, "node");
  node.gauge(
      "cpu.frequency", "cpu0", [](double second) { return second < 20 ? 3.5e9 : 2.1e9; }, "job");
  if (*limit != '\0') node.begin.emplace_back("cpu.power_limit.0", limit);
  if (*made_for != '\0') node.begin.emplace_back("cpu.power_limit_most.0", made_for);
  return node.findings("cpu.power_cap");
}

TEST(RulePowerCap, NotesAPackageAtALoweredLimit) {
  for (const auto& [metric, instance] : {std::pair("energy.package", "0"), {"platform.energy_package", "package0"}}) {
    const auto found = package(150, "150000000", "270000000", metric, instance);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].severity, Severity::notice);
    EXPECT_NE(found[0].sentence.find("is limited to 150 W; its nominal limit is 270 W"), std::string::npos)
        << found[0].sentence;
    EXPECT_NEAR(found[0].evidence.at(2).observed.value_or(0), 2.1e9, 2e7);
    EXPECT_NE(found[0].sentence.find(", with a clock of 2.1"), std::string::npos) << found[0].sentence;
    EXPECT_FALSE(found[0].impact.seconds.has_value());
  }
}

TEST(RulePowerCap, LeavesDenseWorkAtThePowerOfTheProcessorAlone) {
  EXPECT_TRUE(package(270, "270000000", "270000000", "energy.package", "0").empty());
  EXPECT_TRUE(package(120, "150000000", "270000000", "energy.package", "0").empty()) << "far from its limit";
  EXPECT_TRUE(package(150, "150000000", "0", "energy.package", "0").empty()) << "not known what it is made for";
}

TEST(RulePowerCap, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("cpu.power_cap")), Unavailable);
  EXPECT_THROW(static_cast<void>(package(150, "", "", "energy.package", "0")), Unavailable);
}

TEST(RulePowerCap, ClaimsNoLowerClockThatWasNotMeasured) {
  R unmeasured;
  unmeasured.counter("energy.package", "0", R::always(150e6), "node");
  unmeasured.begin = {{"cpu.power_limit.0", "150000000"}, {"cpu.power_limit_most.0", "270000000"}};
  const auto found = unmeasured.findings("cpu.power_cap");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sentence.find("clock"), std::string::npos) << found[0].sentence;
  EXPECT_EQ(found[0].runner_up.why_not, "heat cannot be ruled out: it was not measured");
  R all_the_time = unmeasured;
  all_the_time.gauge("cpu.frequency", "cpu0", R::always(2.1e9));
  const auto always = all_the_time.findings("cpu.power_cap");
  ASSERT_EQ(always.size(), 1U);
  EXPECT_EQ(always[0].sentence.find("clock"), std::string::npos) << "there is nothing to compare it with";
  EXPECT_FALSE(always[0].evidence.back().expected.has_value());
}

/// 3 GHz; from 50 s to 65 s 2 and 3.2 GHz in turns of a second.
double restless(double second) {
  if (second < 50 || second >= 65) return 3e9;
  return std::fmod(second, 2) < 1 ? 2e9 : 3.2e9;
}

R clock(const R::Course& hertz, const R::Course& load) {
  R node;
  node.gauge("cpu.frequency", "cpu0", hertz).gauge("cpu.frequency", "cpu1", hertz);
  node.gauge("job.cpu_allowed", "cpu0", R::always(1)).gauge("job.cpu_allowed", "cpu1", R::always(1));
  node.counter("job.cpu_time", "", load);
  return node;
}

TEST(RuleFrequency, ReportsARestlessClockAsASymptom) {
  R node = clock(restless, R::always(1.9e9));
  node.counter("cpu.interrupts", "", R::event(1000, 90000), "node");
  const auto found = node.findings("cpu.freq_oscillation");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::notice);
  EXPECT_EQ(found[0].confidence, Confidence::possible);
  EXPECT_NEAR(node.second_of(found[0].intervals.at(0).begin_utc_ns), 50, 4);
  EXPECT_TRUE(found[0].runner_up.why_not.starts_with("interrupts rose at the same time")) << found[0].runner_up.why_not;
}

TEST(RuleFrequency, NamesOnlyMeasuredMetricsThatDidNotRise) {
  const auto nothing = clock(restless, R::always(1.9e9)).findings("cpu.freq_oscillation");
  ASSERT_EQ(nothing.size(), 1U);
  EXPECT_EQ(nothing[0].runner_up.why_not, "a cause was not searched: interrupts, reads and traffic were not measured");
  R node = clock(restless, R::always(1.9e9));
  node.counter("cpu.interrupts", "", R::always(1000), "node").counter("disk.read_bytes", "vda", R::always(1e6), "node");
  const auto found = node.findings("cpu.freq_oscillation");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].runner_up.why_not, "no cause was found: interrupts, reads from disks did not clearly rise");
}

TEST(RuleFrequency, ReadsCountedCyclesWhereThereAreSome) {
  R node = clock(R::always(3e9), R::always(1.9e9));
  node.counter(
      "platform.aperf", "cpu0", [](double second) { return restless(second); }, "node");
  node.counter("platform.mperf", "cpu0", R::always(2.5e9), "node");
  node.counter("platform.tsc", "cpu0", R::always(2.5e9), "node");
  const auto found = node.findings("cpu.freq_oscillation");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].evidence.at(0).metric, "platform.busy_frequency");
}

TEST(RuleFrequency, LeavesAClockThatFollowsTheLoadAlone) {
  const auto bursts = [](double second) { return restless(second) * 0.6; };
  EXPECT_TRUE(clock(restless, bursts).findings("cpu.freq_oscillation").empty());
  EXPECT_TRUE(clock(R::always(3e9), R::always(1.9e9)).findings("cpu.freq_oscillation").empty());
  const auto faster = [](double second) { return second < 50 || second >= 65 ? 2e9 : restless(second) + 0.5e9; };
  EXPECT_TRUE(clock(faster, R::always(1.9e9)).findings("cpu.freq_oscillation").empty()) << "it costs nothing";
}

/// One level every second second from 50 s to 65 s, else another: a load in bursts.
R::Course bursts(double usual, double inside, double between) {
  return [=](double second) {
    if (second < 50 || second >= 65) return usual;
    return std::fmod(second, 2) < 1 ? inside : between;
  };
}

/// A clock that goes down whenever the job waits for a read.
R waits_for_reads(const R::Course& wait, const R::Course& read, const R::Course& used) {
  R node = clock(restless, used);
  node.counter("pressure.io_some", "", wait)
      .counter("process.read_bytes", "rank0", read, "rank")
      .counter("disk.io_time", "vda", R::always(0.02e9));
  return node;
}

TEST(RuleFrequency, FoldsAClockIntoTheReadsWhoseWaitsChangeTheLoad) {
  const R node = waits_for_reads(bursts(0.01e9, 0.9e9, 0.5e9), bursts(18e6, 6e6, 1e6), bursts(1.9e9, 0.3e9, 1.4e9));
  const auto reads = node.findings("io.slow_reads");
  ASSERT_EQ(reads.size(), 1U);
  ASSERT_TRUE(explained_by(node, reads, "cpu.freq_oscillation"));
  const auto found = node.findings("cpu.freq_oscillation", reads);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::info);
  EXPECT_FALSE(found[0].impact.seconds.has_value());
  EXPECT_NE(found[0].sentence.find("while the load did, too"), std::string::npos) << found[0].sentence;
  EXPECT_TRUE(node.findings("cpu.freq_oscillation").empty()) << "without the reads nobody knows why the load changed";
}

/// Others fill the disk from which the job reads a little; a request takes 5 ms, and inside `took` seconds.
R filled_by_others(double took) {
  R node = clock(restless, bursts(1.9e9, 0.3e9, 1.4e9));
  node.counter("pressure.io_some", "", bursts(0.01e9, 0.9e9, 0.5e9))
      .counter("disk.io_time", "vda", R::event(0.02e9, 0.98e9))
      .counter("disk.reads", "vda", R::event(4, 200))
      .counter("disk.writes", "vda", R::always(0))
      .counter("disk.read_time", "vda", R::event(4 * 0.005e9, 200 * took * 1e9))
      .counter("disk.write_time", "vda", R::always(0))
      .counter("disk.read_bytes", "vda", R::event(16e3, 800e3))
      .counter("disk.write_bytes", "vda", R::always(0))
      .counter("process.read_bytes", "rank0", R::event(16e3, 8e3), "rank")
      .counter("process.write_bytes", "rank0", R::always(0), "rank")
      .counter("cpu.forks", "", R::always(0.5));
  return node;
}

TEST(RuleFrequency, FoldsAClockIntoTheDiskThatOthersFill) {
  const R node = filled_by_others(0.12);
  const auto disk = node.findings("io.local_disk_saturated");
  ASSERT_EQ(disk.size(), 1U);
  EXPECT_TRUE(node.findings("node.noisy_neighbour", disk).empty());
  EXPECT_TRUE(explained_by(node, disk, "cpu.freq_oscillation"));
}

TEST(RuleFrequency, FoldsAClockIntoTheNeighboursOfADiskWhoseRequestsWaitUncounted) {
  const R node = filled_by_others(0.01);  // counted only from the moment on at which it has one of the few tags
  ASSERT_TRUE(node.findings("io.local_disk_saturated").empty());
  const auto neighbours = node.findings("node.noisy_neighbour");
  ASSERT_EQ(neighbours.size(), 1U);
  EXPECT_TRUE(explained_by(node, neighbours, "cpu.freq_oscillation"));
}

TEST(RuleFrequency, FoldsAClockIntoTheInterruptsThatTakeTheCpu) {
  R node = clock(restless, bursts(1.9e9, 1.2e9, 1.8e9));
  node.counter("softnet.processed", "cpu0", bursts(10'000, 90'000, 40'000))
      .counter("softnet.processed", "cpu1", R::event(10'000, 100))
      .counter("softnet.dropped", "cpu0", bursts(0, 80, 0))
      .counter("tcp.InSegs", "", R::event(20'000, 60'000));
  const auto packets = node.findings("irq.softirq_saturation");
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_TRUE(explained_by(node, packets, "cpu.freq_oscillation"));
  EXPECT_TRUE(node.findings("cpu.freq_oscillation").empty());
}

TEST(RuleFrequency, LeavesALoadAloneThatChangesLongAfterTheReads) {
  const R node = waits_for_reads(R::always(0.01e9), R::always(18e6), bursts(1.9e9, 0.3e9, 1.4e9));
  std::vector<Finding> reads(1);
  reads[0].id = "io.slow_reads";
  reads[0].nodes = {node.telemetry.node};
  const std::int64_t begin = node.telemetry.begin_utc_ns;
  reads[0].intervals = {{begin + 10'000'000'000, begin + 25'000'000'000}};
  EXPECT_TRUE(node.findings("cpu.freq_oscillation", reads).empty());
}

TEST(RuleFrequency, IsSilentUnderARuleThatLeads) {
  const R node = clock(restless, R::always(1.9e9));
  std::vector<Finding> before(1);
  before[0].intervals = node.findings("cpu.freq_oscillation").at(0).intervals;
  EXPECT_TRUE(node.findings("cpu.freq_oscillation", before).empty());
  before[0].id = "irq.softirq_saturation";
  before[0].nodes = {node.telemetry.node};
  EXPECT_TRUE(explained_by(node, before, "cpu.freq_oscillation")) << "what changes the clock takes it into its chain";
}

TEST(RuleFrequency, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("cpu.freq_oscillation")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::cpu_clock_under_load_test
