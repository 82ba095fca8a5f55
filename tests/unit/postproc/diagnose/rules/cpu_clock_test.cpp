#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "rule_recording.h"

namespace reveal::tests::cpu_clock_test {
namespace {

using R = RuleRecording;

std::vector<Finding> of(const char* rule, Snapshot facts) {
  R node;
  node.begin = std::move(facts);
  return node.findings(rule);
}

TEST(RuleClockSource, NamesAClockThatOnlyTheKernelCanRead) {
  const auto found =
      of("cpu.clocksource_not_tsc", {{"kernel.clocksource", "hpet"}, {"kernel.clocksources", "hpet acpi_pm"}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("uses the clock source hpet (available: hpet acpi_pm)"), std::string::npos);
  for (const char* good : {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"}) {
    EXPECT_TRUE(of("cpu.clocksource_not_tsc", {{"kernel.clocksource", good}}).empty()) << good;
  }
  EXPECT_THROW(static_cast<void>(of("cpu.clocksource_not_tsc", {})), Unavailable);
}

TEST(RuleGovernor, KnowsWhichDriversMeanItByPowersave) {
  const auto of_driver = [](const char* driver, const char* governor, const char* boost) {
    return of("cpu.governor_powersave",
              {{"cpu.governor", governor}, {"cpu.frequency_driver", driver}, {"cpu.boost", boost}});
  };
  EXPECT_EQ(of_driver("acpi-cpufreq", "powersave", "1").size(), 1U);
  EXPECT_EQ(of_driver("acpi-cpufreq", "powersave 0-3; performance 4-7", "1").size(), 1U);
  EXPECT_TRUE(of_driver("intel_pstate", "powersave", "").empty());
  EXPECT_TRUE(of_driver("amd-pstate-epp", "powersave", "1").empty());
  EXPECT_TRUE(of_driver("acpi-cpufreq", "schedutil", "1").empty());
  const auto off = of_driver("acpi-cpufreq", "performance", "0");
  ASSERT_EQ(off.size(), 1U);
  EXPECT_NE(off[0].sentence.find("boost is off"), std::string::npos) << off[0].sentence;
  EXPECT_THROW(static_cast<void>(of("cpu.governor_powersave", {})), Unavailable);
}

TEST(RuleGovernor, SeesLimitsAndPreferencesBesideTheGovernor) {
  const auto with = [](Snapshot more) {
    Snapshot facts{{"cpu.governor", "powersave"}, {"cpu.frequency_driver", "intel_pstate"}};
    facts.insert(facts.end(), more.begin(), more.end());
    const auto found = of("cpu.governor_powersave", facts);
    return found.empty() ? "" : found.front().evidence.at(0).metric;
  };
  EXPECT_EQ(with({{"cpu.no_turbo", "1"}}), "cpu.no_turbo");
  EXPECT_EQ(with({{"cpu.energy_preference", "balance_power"}}), "cpu.energy_preference");
  EXPECT_EQ(with({{"cpu.most_performance", "70"}}), "cpu.most_performance");
  EXPECT_EQ(with({{"cpu.frequency_limit", "2000000"}, {"cpu.frequency_most", "3500000"}}), "cpu.frequency_limit");
  EXPECT_EQ(with({{"cpu.no_turbo", "0"},
                  {"cpu.energy_preference", "balance_performance"},
                  {"cpu.most_performance", "100"},
                  {"cpu.frequency_limit", "3500000"},
                  {"cpu.frequency_most", "3500000"}}),
            "");
}

}  // namespace
}  // namespace reveal::tests::cpu_clock_test
