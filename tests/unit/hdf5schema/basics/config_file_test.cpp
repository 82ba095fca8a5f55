#include "hdf5schema/basics/config_file.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reveal::tests::config_file_test {
namespace {

using Words = std::vector<std::string>;

ConfigFile read(std::string_view text) {
  return parse_config(text, "reveal.conf");
}

std::vector<std::string> problems_of(std::string_view text) {
  std::vector<std::string> texts;
  for (const ConfigProblem& problem : read(text).problems) texts.push_back(problem.text);
  return texts;
}

TEST(ConfigFileText, ReadsSectionsKeysAndValuesWithTheirLines) {
  const ConfigFile config = read(
      "# a comment\n"
      "\n"
      "[run]   # how\r\n"
      "interval = \"100ms\"\n"
      "  quiet=true # no\n"
      "[mail]\n"
      "admins = [ \"root\", 'ops@example.org' ,]\n"
      "[rule.\"cpu.outsider\"]\n"
      "min_cpu = 0.15");
  EXPECT_TRUE(config.problems.empty());
  ASSERT_EQ(config.entries.size(), 4U);
  EXPECT_EQ(config.entries[0].section, "run");
  EXPECT_EQ(config.entries[0].key, "interval");
  EXPECT_EQ(config.entries[0].values, Words{"100ms"});
  EXPECT_EQ(config.entries[0].line, 4);
  EXPECT_EQ(config.entries[1].values, Words{"true"});
  EXPECT_EQ(config.entries[1].line, 5);
  EXPECT_EQ(config.entries[2].values, (Words{"root", "ops@example.org"}));
  EXPECT_EQ(config.entries[3].section, "rule.\"cpu.outsider\"");
  EXPECT_EQ(config.entries[3].line, 9);
  ASSERT_EQ(config.headings.size(), 3U);
  EXPECT_EQ(config.headings[2].line, 8);
}

TEST(ConfigFileText, KeepsWhatStandsBetweenQuotes) {
  const ConfigFile config =
      read("[mail]\na = \"x # y\"\nb = 'say \"no\"'\nc = \"\"\nd = []\ne = [\"a,b\", c]\nf = a,b\n");
  ASSERT_EQ(config.entries.size(), 6U);
  EXPECT_EQ(config.entries[0].values, Words{"x # y"});
  EXPECT_EQ(config.entries[1].values, Words{"say \"no\""});
  EXPECT_EQ(config.entries[2].values, Words{""});
  EXPECT_TRUE(config.entries[3].values.empty());
  EXPECT_EQ(config.entries[4].values, (Words{"a,b", "c"}));
  EXPECT_EQ(config.entries[5].values, Words{"a,b"});
}

TEST(ConfigFileText, NamesFileAndLineOfWhatCannotBeRead) {
  EXPECT_EQ(problems_of("[run]\ninterval\n"), Words{"reveal.conf:2: expected key = value"});
  EXPECT_EQ(problems_of("[run]\n= 3\n"), Words{"reveal.conf:2: expected key = value"});
  EXPECT_EQ(problems_of("[run\n"), Words{"reveal.conf:1: a section ends in ]"});
  EXPECT_EQ(problems_of("interval = 1s\n[run]\n"),
            Words{"reveal.conf:1: \"interval\" stands above the first [section]"});
  const std::string unreadable =
      "reveal.conf:2: \"a\" has no value that can be read; expected a word, \"text\" or [\"a\", \"b\"]";
  for (const char* value : {"", "\"x", "'x", "\"x\" y", "[", "[\"x\"", "[\"x]", "[a,,b]", "[[a]]", "x\"y"}) {
    EXPECT_EQ(problems_of("[run]\na = " + std::string(value) + "\n"), Words{unreadable}) << value;
  }
}

TEST(ConfigFileText, GoesOnAfterAMistake) {
  const ConfigFile config = read("[mail\nenabled = true\n[run]\nnonsense\nquiet = true\n");
  ASSERT_EQ(config.entries.size(), 1U);
  EXPECT_EQ(config.entries[0].key, "quiet");
  ASSERT_EQ(config.problems.size(), 2U);
  EXPECT_EQ(config.problems[0].section, "");
  EXPECT_EQ(config.problems[1].section, "run");
}

TEST(ConfigFileText, SaysTheSameUpToEveryCut) {
  const std::string text =
      "[mail]\nadmins = [\"a\", 'b']\n[rule.\"cpu.outsider\"]\nmin_cpu = 0.1 # x\n" + std::string(1, '\0') + "[\"=";
  const ConfigFile whole = read(text);
  ASSERT_EQ(whole.entries.size(), 2U);
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const ConfigFile cut = read(text.substr(0, size));
    ASSERT_LE(cut.entries.size(), whole.entries.size());
    for (std::size_t i = 0; i < cut.entries.size(); ++i) {
      EXPECT_EQ(cut.entries[i].section, whole.entries[i].section);
      EXPECT_EQ(cut.entries[i].key, whole.entries[i].key);
    }
  }
}

TEST(ConfigFileSections, TellsFamilyAndSubject) {
  EXPECT_EQ(config_family("rule.\"cpu.outsider\""), "rule");
  EXPECT_EQ(config_subject("rule.\"cpu.outsider\""), "cpu.outsider");
  EXPECT_EQ(config_subject("rule.cpu.outsider"), "cpu.outsider");
  EXPECT_EQ(config_family("run"), "run");
  EXPECT_EQ(config_subject("run"), "");
}

}  // namespace
}  // namespace reveal::tests::config_file_test
