#include <gtest/gtest.h>

#include "hdf5schema/basics/error.h"
#include "postproc/report/wording.h"
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
  EXPECT_TRUE(only_admins_act(found[0].remedy));
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

TEST(RuleGovernor, NamesTheCpusThatDiffer) {
  const auto on = [](const char* job_cpus, Snapshot facts) {
    facts.emplace_back("cpu.online", "0-7");
    if (job_cpus != nullptr) facts.emplace_back("job.cpus_allowed", job_cpus);
    return of("cpu.governor_powersave", std::move(facts));
  };
  const Snapshot mixed{{"cpu.governor", "performance 0-3; powersave 4-7"}, {"cpu.frequency_driver", "acpi-cpufreq"}};
  const auto found = on("2-5", mixed);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("clocks of cpus 4-5 of n2, 2 of the 4 compared: governor powersave of driver"),
            std::string::npos)
      << found[0].sentence;
  ASSERT_FALSE(found[0].remedy.admin.empty());
  EXPECT_EQ(found[0].remedy.admin[0],
            "cpupower -c 4-5 frequency-set -g performance   # changes the node until its next boot: the governor");
  EXPECT_TRUE(on("0-3", mixed).empty()) << "those of other jobs do not matter to this one";
  const auto all = on("4-7", mixed);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_NE(all[0].sentence.find("clocks of the cpus of n2: governor"), std::string::npos) << all[0].sentence;
  EXPECT_EQ(on(nullptr, mixed).size(), 1U) << "a node without a job";
  EXPECT_THROW(static_cast<void>(on("8-9", mixed)), Unavailable) << "nothing is known of these";
}

TEST(RuleGovernor, ComparesEachCpuWithWhatItCanDo) {
  const auto with_limits = [](const char* limit, const char* most) {
    return of("cpu.governor_powersave", {{"cpu.governor", "schedutil"},
                                         {"cpu.online", "0-7"},
                                         {"cpu.frequency_limit", limit},
                                         {"cpu.frequency_most", most}});
  };
  EXPECT_TRUE(with_limits("4500000 0-3; 3300000 4-7", "4500000 0-3; 3300000 4-7").empty()) << "two kinds of cores";
  const auto found = with_limits("2000000 7; 4500000 0-3; 3300000 4-6", "4500000 0-3; 3300000 4-7");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].sentence.find("cpus 7 of n2, 1 of the 8 compared: the highest clock is limited to 2 GHz of 3.3"),
            std::string::npos)
      << found[0].sentence;
  ASSERT_FALSE(found[0].remedy.admin.empty());
  EXPECT_EQ(
      found[0].remedy.admin[0],
      "cpupower -c 7 frequency-set -u 3300000   # changes the node until its next boot: the highest clock, in kHz");
  // A text that is longer than a fact ends in dots: its last part may lack its cpus.
  EXPECT_TRUE(with_limits("4500000 0-3; 33...", "4500000 0-3; 3300000 4-7").empty());
}

TEST(RuleGovernor, TakesALimitThatHeatLowersForNoSetting) {
  R node;
  node.begin = {{"cpu.governor", "schedutil"},
                {"cpu.online", "0-7"},
                {"cpu.frequency_limit", "1200000"},
                {"cpu.frequency_most", "3500000"}};
  EXPECT_EQ(node.findings("cpu.governor_powersave").size(), 1U);
  R cooled = node;
  cooled.gauge("cooling.active", "", R::event(0, 8), "node");
  EXPECT_TRUE(cooled.findings("cpu.governor_powersave").empty());
  R moved = node;
  moved.gauge("cpu.frequency_ceiling", "cpu0", R::event(3.5e9, 1.2e9), "node");
  EXPECT_TRUE(moved.findings("cpu.governor_powersave").empty()) << "a setting does not come and go";
  R fixed = node;
  fixed.gauge("cooling.active", "", R::always(0), "node");
  fixed.gauge("cpu.frequency_ceiling", "cpu0", R::always(1.2e9), "node");
  const auto found = fixed.findings("cpu.governor_powersave");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].runner_up.why_not, "heat: the kernel counts it separately");
  EXPECT_EQ(node.findings("cpu.governor_powersave")[0].runner_up.why_not,
            "heat cannot be ruled out: it was not measured");
}

TEST(RuleGovernor, DoesNotCallAPreferenceALimit) {
  const auto sentence = [](const char* driver, const char* governor, const char* preference) {
    const auto found =
        of("cpu.governor_powersave",
           {{"cpu.governor", governor}, {"cpu.frequency_driver", driver}, {"cpu.energy_preference", preference}});
    return found.empty() ? "" : found[0].sentence;
  };
  EXPECT_EQ(sentence("intel_pstate", "powersave", "balance_power"),
            "A setting makes the cpus of n2 save energy rather than raise their clocks: their energy preference is "
            "balance_power.");
  EXPECT_EQ(sentence("acpi-cpufreq", "conservative", ""),
            "A setting makes the cpus of n2 save energy rather than raise their clocks: governor conservative of "
            "driver acpi-cpufreq.");
  EXPECT_EQ(sentence("acpi-cpufreq", "powersave", ""),
            "A setting limits the clocks of the cpus of n2: governor powersave of driver acpi-cpufreq.");
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
