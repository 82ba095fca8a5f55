#include "wrapper/settings.h"

#include <gtest/gtest.h>

#include "environment.h"
#include "hdf5schema/basics/error.h"

namespace reveal {
namespace {

TEST(Settings, ExpandsSlurmPatterns) {
  const auto environment = with({{"SLURM_JOB_ID", "4711"},
                                 {"SLURM_ARRAY_JOB_ID", "4700"},
                                 {"SLURM_ARRAY_TASK_ID", "11"},
                                 {"SLURM_JOB_NAME", "train"},
                                 {"SLURM_JOB_USER", "anna"}});
  EXPECT_EQ(expand_pattern("/scratch/%u/%x-%j", environment), "/scratch/anna/train-4711");
  EXPECT_EQ(expand_pattern("%A_%a/100%%", environment), "4700_11/100%");
}

TEST(Settings, PatternValuesCannotLeaveTheDirectory) {
  EXPECT_EQ(expand_pattern("out/%x", with({{"SLURM_JOB_NAME", "../../etc"}})), "out/_.._.._etc");
  EXPECT_EQ(expand_pattern("out/%x", with({{"SLURM_JOB_NAME", "a b\n\x1b[0m"}})), "out/a_b___0m");
}

TEST(Settings, PatternsWithoutAJobAreStillUnique) {
  EXPECT_NE(expand_pattern("%j", with({})), "");
  EXPECT_EQ(expand_pattern("%a", with({})), "0");
}

TEST(Settings, RefusesPatternsThatSlurmDoesNotKnow) {
  EXPECT_THROW(static_cast<void>(expand_pattern("%z", with({}))), Error);
  EXPECT_THROW(static_cast<void>(expand_pattern("out%", with({}))), Error);
}

TEST(Settings, FileNamePartsAreNeverEmptyOrHidden) {
  EXPECT_EQ(file_name_part("n03.cluster"), "n03.cluster");
  EXPECT_EQ(file_name_part(""), "_");
  EXPECT_EQ(file_name_part(".."), "_..");
  EXPECT_EQ(file_name_part("a/b"), "a_b");
  EXPECT_EQ(file_name_part(std::string(300, 'x')).size(), 100U);
}

TEST(Settings, ReadsTheEnvironment) {
  Settings settings;
  const auto complaints = apply_environment(
      with({{"REVEAL_INTERVAL", "1s"}, {"REVEAL_REPORT", "no"}, {"REVEAL_QUIET", "1"}, {"REVEAL_TAG", "a=1,b=2=3"}}),
      settings);
  EXPECT_TRUE(complaints.empty());
  EXPECT_EQ(settings.interval, "1s");
  EXPECT_FALSE(settings.report);
  EXPECT_TRUE(settings.quiet);
  ASSERT_EQ(settings.tags.size(), 2U);
  EXPECT_EQ(settings.tags[1], std::make_pair(std::string("b"), std::string("2=3")));
}

TEST(Settings, AMistakeInTheEnvironmentLeavesTheDefault) {
  Settings settings;
  const auto complaints = apply_environment(with({{"REVEAL_INTERVAL", "soon"}}), settings);
  ASSERT_EQ(complaints.size(), 1U);
  EXPECT_EQ(complaints[0], "REVEAL_INTERVAL: \"soon\" is not a time such as 100ms or 1s");
  EXPECT_EQ(settings.interval, "100ms");
}

TEST(Settings, SuggestsTheNearKeyOfAConfigurationFile) {
  Settings settings;
  const ConfigLine lines[] = {{"intervall", {"1s"}}, {"interval", {"200ms"}}, {"colour", {"red"}}};
  const auto complaints = apply_config(lines, "reveal.conf", settings);
  ASSERT_EQ(complaints.size(), 2U);
  EXPECT_EQ(complaints[0], "reveal.conf: unknown key \"intervall\" in [run]; did you mean \"interval\"?");
  EXPECT_EQ(complaints[1], "reveal.conf: unknown key \"colour\" in [run]");
  EXPECT_EQ(settings.interval, "200ms");
}

TEST(Settings, StrongerSourcesReplaceTagsByKey) {
  Settings settings;
  const ConfigLine lines[] = {{"tag", {"site=x", "run=1"}}};
  EXPECT_TRUE(apply_config(lines, "reveal.conf", settings).empty());
  EXPECT_TRUE(apply_environment(with({{"REVEAL_TAG", "run=2"}}), settings).empty());
  ASSERT_EQ(settings.tags.size(), 2U);
  EXPECT_EQ(settings.tags[1].second, "2");
}

TEST(Settings, BoundsTheInterval) {
  Settings settings;
  for (const SettingSpec& spec : setting_specs()) {
    if (std::string(spec.key) != "interval") continue;
    EXPECT_NO_THROW(spec.apply(settings, "10ms"));
    EXPECT_THROW(spec.apply(settings, "9ms"), Error);
    EXPECT_THROW(spec.apply(settings, "61s"), Error);
    EXPECT_THROW(spec.apply(settings, "100"), Error);
  }
}

}  // namespace
}  // namespace reveal
