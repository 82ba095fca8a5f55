#include "wrapper/settings.h"

#include <gtest/gtest.h>

#include "environment.h"
#include "hdf5schema/basics/error.h"

namespace reveal::tests::settings_test {
namespace {

TEST(RunSettings, ExpandsSlurmPatterns) {
  const auto environment = with({{"SLURM_JOB_ID", "4711"},
                                 {"SLURM_ARRAY_JOB_ID", "4700"},
                                 {"SLURM_ARRAY_TASK_ID", "11"},
                                 {"SLURM_JOB_NAME", "train"},
                                 {"SLURM_JOB_USER", "anna"}});
  EXPECT_EQ(expand_pattern("/scratch/%u/%x-%j", environment), "/scratch/anna/train-4711");
  EXPECT_EQ(expand_pattern("%A_%a/100%%", environment), "4700_11/100%");
}

TEST(RunSettings, PatternValuesCannotLeaveTheDirectory) {
  EXPECT_EQ(expand_pattern("out/%x", with({{"SLURM_JOB_NAME", "../../etc"}})), "out/_.._.._etc");
  EXPECT_EQ(expand_pattern("out/%x", with({{"SLURM_JOB_NAME", "a b\n\x1b[0m"}})), "out/a_b___0m");
}

TEST(RunSettings, PatternsWithoutAJobAreStillUnique) {
  EXPECT_NE(expand_pattern("%j", with({})), "");
  EXPECT_EQ(expand_pattern("%a", with({})), "0");
}

TEST(RunSettings, RefusesPatternsThatSlurmDoesNotKnow) {
  EXPECT_THROW(static_cast<void>(expand_pattern("%z", with({}))), Error);
  EXPECT_THROW(static_cast<void>(expand_pattern("out%", with({}))), Error);
}

TEST(RunSettings, FileNamePartsAreNeverEmptyOrHidden) {
  EXPECT_EQ(file_name_part("n03.cluster"), "n03.cluster");
  EXPECT_EQ(file_name_part(""), "_");
  EXPECT_EQ(file_name_part(".."), "_..");
  EXPECT_EQ(file_name_part("a/b"), "a_b");
  EXPECT_EQ(file_name_part(std::string(300, 'x')).size(), 100U);
}

TEST(RunSettings, KnowsTheNamesOfFiles) {
  for (const char* name : {"n03", "n03.cluster", ".n", "..n", "...", "a b"}) EXPECT_TRUE(is_file_name(name)) << name;
  for (const char* name : {"", ".", "..", "/", "a/", "../n03", "a/b"}) EXPECT_FALSE(is_file_name(name)) << name;
  EXPECT_FALSE(is_file_name(std::string_view("a\0b", 3)));
}

TEST(RunSettings, ReadsTheEnvironment) {
  Config config;
  config.read_environment(with({{"REVEAL_INTERVAL", "1s"},
                                {"REVEAL_REPORT", "no"},
                                {"REVEAL_QUIET", "1"},
                                {"REVEAL_TAG", "a=1,b=2=3"},
                                {"REVEAL_FASTER_READING", "off"},
                                {"REVEAL_STACK_BUDGET", "1.5"},
                                {"REVEAL_STACK_WITHOUT", "c10d.wait,torch.*"},
                                {"REVEAL_STACK", "on"}}));
  EXPECT_TRUE(config.problems().empty());
  const RunSettings settings = settings_of(config);
  EXPECT_EQ(settings.interval, "1s");
  EXPECT_FALSE(settings.report);
  EXPECT_TRUE(settings.quiet);
  EXPECT_TRUE(settings.stack);
  EXPECT_EQ(settings.stack_budget, "1.5");
  EXPECT_EQ(settings.stack_without, "c10d.wait,torch.*");
  EXPECT_FALSE(settings.faster_reading);
  ASSERT_EQ(settings.tags.size(), 2U);
  EXPECT_EQ(settings.tags[1], std::make_pair(std::string("b"), std::string("2=3")));
}

TEST(RunSettings, LetTheSiteAllowInterventionsAndTheUserRefuseThem) {
  const auto interventions = [](ConfigOwner owner, const Environment& environment) {
    Config config;
    config.read("[intervention]\nrules = [\"a.b\", \"c.d\"]\n", "reveal.conf", owner);
    config.read_environment(environment);
    return settings_of(config).interventions;
  };
  EXPECT_EQ(interventions(ConfigOwner::site, with({})), "a.b,c.d");
  EXPECT_EQ(interventions(ConfigOwner::site, with({{"REVEAL_INTERVENE", "off"}})), "");
  EXPECT_EQ(interventions(ConfigOwner::user, with({{"REVEAL_INTERVENE", "on"}})), "");
}

TEST(RunSettings, AreTheDefaultsOfTheKeys) {
  const RunSettings read = settings_of(Config());
  const RunSettings settings;
  EXPECT_EQ(read.stack, settings.stack);
  EXPECT_EQ(read.stack_budget, settings.stack_budget);
  EXPECT_EQ(read.stack_without, settings.stack_without);
  EXPECT_EQ(read.faster_reading, settings.faster_reading);
  EXPECT_EQ(read.interval, settings.interval);
  EXPECT_EQ(read.report_limit, settings.report_limit);
  EXPECT_EQ(read.report, settings.report);
  EXPECT_EQ(read.quiet, settings.quiet);
  EXPECT_EQ(read.retain, settings.retain);
  EXPECT_EQ(read.output + read.node + read.mail + read.name + read.probes + read.metrics + read.interventions, "");
  EXPECT_TRUE(read.tags.empty());
}

TEST(RunSettings, StrongerSourcesReplaceTagsByKey) {
  Config config;
  config.read("[run]\ntag = [\"site=x\", \"run=1\"]\n", "reveal.conf", ConfigOwner::site);
  config.read_environment(with({{"REVEAL_TAG", "run=2"}}));
  const RunSettings settings = settings_of(config);
  ASSERT_EQ(settings.tags.size(), 2U);
  EXPECT_EQ(settings.tags[0].second, "x");
  EXPECT_EQ(settings.tags[1].second, "2");
}

TEST(RunSettings, BoundTheInterval) {
  Config config;
  const ConfigKey& interval = config_key("run", "interval");
  EXPECT_EQ(config.set(interval, {"10ms"}, "--interval"), "");
  for (const char* wrong : {"9ms", "61s", "100"}) EXPECT_NE(config.set(interval, {wrong}, "--interval"), "") << wrong;
  EXPECT_EQ(settings_of(config).interval, "10ms");
}

TEST(RunSettings, BoundTheCostOfCountedCalls) {
  Config config;
  const ConfigKey& budget = config_key("run", "stack_budget");
  for (const char* good : {"0.05", ".5", "5"}) EXPECT_EQ(config.set(budget, {good}, "--stack-budget"), "") << good;
  for (const char* wrong : {"0", "0.04", "5.1", "-1", "50", "1%", "much", ""}) {
    EXPECT_EQ(config.set(budget, {wrong}, "--stack-budget"),
              " is a number from 0.05 to 5, in percent, not \"" + std::string(wrong) + '"');
  }
  EXPECT_EQ(settings_of(config).stack_budget, "5");
}

TEST(RunSettings, HaveAnOptionForEveryKey) {
  std::size_t keys = 0;
  for (const ConfigKey& key : kConfigKeys) keys += key.section == "run" ? 1 : 0;
  EXPECT_EQ(run_options().size(), keys);
}

}  // namespace
}  // namespace reveal::tests::settings_test
