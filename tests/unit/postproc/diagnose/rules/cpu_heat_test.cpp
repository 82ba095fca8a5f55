#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "postproc/report/wording.h"
#include "rule_recording.h"

namespace reveal::tests::cpu_heat_test {
namespace {

using R = RuleRecording;

std::vector<Finding> of(double core_share, double package_share = 0) {
  R node;
  node.counter("throttle.core_time", "cpu0", R::event(0, core_share * 1e9), "node");
  node.counter("throttle.core_time", "cpu4", R::event(0, core_share * 0.2e9), "node");
  node.counter("throttle.package_time", "package0", R::event(0, package_share * 1e9), "node");
  node.gauge("temperature.package", "package0", R::event(60, 98), "node");
  return node.findings("cpu.thermal_throttle");
}

TEST(RuleHeat, NamesWhatWasSlowedDownLongest) {
  const auto found = of(0.9);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"cpu0"});
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_NEAR(found[0].evidence.at(0).observed.value_or(0), 13.5, 0.8);
  EXPECT_NEAR(found[0].evidence.at(1).observed.value_or(0), 98, 0.1);
  EXPECT_EQ(of(0.1, 0.5).at(0).instances, std::vector<std::string>{"package0"});
}

TEST(RuleHeat, TakesTheClockForTheCostWhereTheKernelCountsOnlyTheTime) {
  R node;
  node.counter("throttle.core_time", "cpu0", R::event(0, 0.9e9), "node");
  node.gauge("cpu.frequency", "cpu0", R::event(3e9, 2e9)).counter("job.cpu_time", "", R::always(8e9));
  const auto found = node.findings("cpu.thermal_throttle");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 5, 0.3) << "15 s at two thirds of the clock";
  R less_work;
  less_work.counter("throttle.core_time", "cpu0", R::event(0, 0.9e9), "node");
  less_work.gauge("cpu.frequency", "cpu0", R::event(3e9, 2e9)).counter("job.cpu_time", "", R::event(8e9, 2e9));
  EXPECT_FALSE(less_work.findings("cpu.thermal_throttle").at(0).impact.seconds.has_value());
}

/// Cooling devices that are active from 50 s to 65 s, and the highest clock that the kernel allows meanwhile.
R cooled(double devices) {
  R node;
  node.gauge("cooling.active", "", R::event(0, devices), "node");
  node.gauge("cpu.frequency_ceiling", "cpu0", R::event(3.5e9, 1.2e9), "node");
  node.gauge("cpu.frequency_ceiling", "cpu1", R::event(3.5e9, 1.2e9), "node");
  node.gauge("cpu.frequency", "cpu0", R::event(3.5e9, 1.2e9)).counter("job.cpu_time", "", R::always(2e9));
  return node;
}

TEST(RuleHeat, IsSeenAtTheCoolingOfTheKernel) {
  const auto found = cooled(2).findings("cpu.thermal_throttle");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].confidence, Confidence::likely);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].sentence,
            "The kernel's cooling devices slowed the cpus of n2 down for 15 s of 2 min (12.5 % of the run).");
  EXPECT_NEAR(R().second_of(found[0].intervals.at(0).begin_utc_ns), 50, 0.2);
  EXPECT_NEAR(R().second_of(found[0].intervals.at(0).end_utc_ns), 65, 0.2);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 15 * (1 - 1.2 / 3.5), 0.3);
}

TEST(RuleHeat, TellsTheAllowedClockWhereTheCostIsNotKnown) {
  R node = cooled(2);
  node.counter("job.cpu_time", "more", R::event(0, 2e9));
  const auto found = node.findings("cpu.thermal_throttle");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].impact.seconds.has_value());
  EXPECT_TRUE(found[0].sentence.ends_with("; it allowed them 1.2 GHz instead of 3.5 GHz.")) << found[0].sentence;
}

TEST(RuleHeat, TellsTheAllowedClockWhereTheCostIsThatOfTheWork) {
  R node = cooled(2);
  node.counter("process.read_by_calls", "rank0", R::event(5e6, 1e6));
  const auto found = node.findings("cpu.thermal_throttle");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].impact.how.starts_with("the read calls ")) << found[0].impact.how;
  EXPECT_TRUE(found[0].sentence.ends_with("; it allowed them 1.2 GHz instead of 3.5 GHz.")) << found[0].sentence;
}

TEST(RuleHeat, IsForTheAdministratorsToRepair) {
  R node = cooled(2);
  EXPECT_TRUE(only_admins_act(node.findings("cpu.thermal_throttle").at(0).remedy));
  node.begin = {{"env.SLURM_JOB_ID", "4711"}};
  EXPECT_EQ(node.findings("cpu.thermal_throttle").at(0).remedy.advice, std::vector<std::string>{kShowAdministrators})
      << "the user can leave the node out, and has to tell them";
}

TEST(RuleHeat, IsSilentWhereTheKernelDidNotCool) {
  EXPECT_TRUE(cooled(0).findings("cpu.thermal_throttle").empty()) << "the limit fell for another reason";
}

TEST(RuleHeat, IsANoticeWhereItWasBriefAndNothingWhereItWasNot) {
  EXPECT_EQ(of(0.1).at(0).severity, Severity::notice);
  EXPECT_TRUE(of(0).empty());
}

TEST(RuleHeat, TakesASumOverManyCoresForNoCore) {
  R node;
  node.counter("throttle.core_time", "other_cpus", R::always(0.2e9), "node");
  EXPECT_TRUE(node.findings("cpu.thermal_throttle").empty());
}

/// A processor with a driver that counts no throttling: 60 C, then 93 C from 60 s on, of a job on eight cpus.
struct Amd {
  std::string sensor = "k10temp0.Tctl";
  double hot_clock = 2.4e9;
  double cool_load = 8;
  double hot_power = 0;  // W; 200 before; 0: not measured
  double hot = 93;

  [[nodiscard]] R record() const {
    const auto from_60 = [](double before, double after) {
      return [=](double second) { return second < 60 ? before : after; };
    };
    R node;
    node.gauge("temperature.package", sensor, from_60(60, hot), "node");
    node.gauge("cpu.frequency", "cpu0", from_60(3.0e9, hot_clock));
    node.counter("job.cpu_time", "", from_60(cool_load * 1e9, 8e9));
    if (hot_power > 0) node.counter("energy.package", "0", from_60(200e6, hot_power * 1e6), "node");
    return node;
  }
  [[nodiscard]] std::vector<Finding> findings() const { return record().findings("cpu.thermal_throttle"); }
};

TEST(RuleHeat, IsSeenAtTheSensorsWhereNothingCountsIt) {
  const auto found = Amd{}.findings();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].instances, std::vector<std::string>{"k10temp0.Tctl"});
  EXPECT_EQ(found[0].confidence, Confidence::possible) << "a power limit cannot be excluded";
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_NEAR(found[0].impact.seconds.value_or(0), 60 * 0.2, 0.5);
  EXPECT_NE(found[0].sentence.find("was at 93 C, near the limit that this rule assumes of 95 C, for"),
            std::string::npos)
      << found[0].sentence;
  EXPECT_FALSE(found[0].evidence.at(0).expected.has_value()) << "the driver does not report the limit";
  EXPECT_NEAR(R().second_of(found[0].intervals.at(0).begin_utc_ns), 60, 0.2);
  EXPECT_EQ(Amd{.hot_power = 150}.findings().at(0).confidence, Confidence::possible) << "the limit is assumed";
  R reported = Amd{.hot_power = 150}.record();
  reported.begin.emplace_back("temperature_limit.k10temp0.Tctl", "95");
  const auto sure = reported.findings("cpu.thermal_throttle");
  ASSERT_EQ(sure.size(), 1U);
  EXPECT_NE(sure[0].sentence.find("was at 93 C, near its limit of 95 C, for"), std::string::npos) << sure[0].sentence;
  EXPECT_EQ(sure[0].confidence, Confidence::likely) << "less power than the processor may take";
  EXPECT_EQ(sure[0].evidence.size(), 3U);
}

TEST(RuleHeat, IsNotWhatMakesAProcessorHotByDesign) {
  EXPECT_TRUE(Amd{.cool_load = 2}.findings().empty()) << "more cpus at work: hotter, and a lower clock of all cores";
  EXPECT_TRUE(Amd{.hot_power = 260}.findings().empty()) << "heavier instructions at the same number of cpus";
  EXPECT_TRUE(Amd{.hot_clock = 2.95e9}.findings().empty()) << "hot, and no slower";
  EXPECT_TRUE(Amd{.hot = 85}.findings().empty()) << "slower, and not hot: some other reason";
}

TEST(RuleHeat, KnowsTheLimitOfASensorOrSaysNothing) {
  R told = Amd{.hot = 93}.record();
  told.begin.emplace_back("temperature_limit.k10temp0.Tctl", "105");
  EXPECT_TRUE(told.findings("cpu.thermal_throttle").empty()) << "far from the limit that the driver tells";
  EXPECT_THROW(static_cast<void>(Amd{.sensor = "soc_thermal0.temp1"}.findings()), Unavailable);
  R with_offset = Amd{}.record();
  with_offset.gauge("temperature.package", "k10temp0.Tdie", R::always(66), "node");
  EXPECT_TRUE(with_offset.findings("cpu.thermal_throttle").empty()) << "Tctl stands 27 C above the die there";
}

TEST(RuleHeat, SaysWhatWasNotMeasured) {
  EXPECT_THROW(static_cast<void>(R().findings("cpu.thermal_throttle")), Unavailable);
}

}  // namespace
}  // namespace reveal::tests::cpu_heat_test
