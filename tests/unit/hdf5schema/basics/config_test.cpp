#include "hdf5schema/basics/config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "../temporary_directory.h"
#include "hdf5schema/basics/error.h"

namespace reveal::tests::config_test {
namespace {

using Words = std::vector<std::string>;
using namespace std::chrono_literals;

Config read(std::string_view text, ConfigOwner owner = ConfigOwner::site) {
  Config config;
  config.read(text, "reveal.conf", owner);
  return config;
}

Words problems_of(std::string_view text, ConfigOwner owner = ConfigOwner::site) {
  Words texts;
  const Config config = read(text, owner);
  for (const ConfigProblem& problem : config.problems()) texts.push_back(problem.text);
  return texts;
}

Environment with(const std::string& name, const std::string& value) {
  return [=](const char* asked) { return asked == name ? value : std::string(); };
}

TEST(ConfigKeys, HaveADefaultThatCanBeWrittenIntoTheFile) {
  std::set<std::string> names;
  for (const ConfigKey& key : kConfigKeys) {
    const Words fallback = Config().list(key);
    const std::string text =
        "[" + std::string(key.section) + "]\n" + std::string(key.key) + " = " + written(key, fallback) + "\n";
    const bool machine = fallback.empty() && key.form == ConfigForm::size;  // its default depends on the machine
    EXPECT_EQ(problems_of(text).empty(), !machine) << text;
    EXPECT_EQ(read(text).list(key), fallback) << text;
    EXPECT_FALSE(key.help.empty()) << text;
    EXPECT_TRUE(names.insert(std::string(key.section) + "." + std::string(key.key)).second) << text;
  }
}

TEST(ConfigKeys, HaveSafeValuesForMistakesOfTheSite) {
  const Config config = read("[slurm]\nkeep_days = 1 year\n[mail]\nsendmail = sendmail\ndisable = no-mail\n");
  EXPECT_EQ(config.whole(config_key("slurm", "keep_days")), 999);
  EXPECT_TRUE(config.list(config_key("mail", "sendmail")).empty());
  EXPECT_EQ(config.text(config_key("mail", "disable")), "/");
  EXPECT_EQ(config.problems()[0].text,
            "reveal.conf:2: \"keep_days\" is a whole number from 1 to 999, not \"1 year\"; 999 is used");
  EXPECT_EQ(config.problems()[1].text,
            "reveal.conf:4: \"sendmail\" is a command that begins with the full path of a program, not \"sendmail\"; "
            "\"\" is used");
}

TEST(ConfigValues, KnowOneTruth) {
  for (const char* word : {"true", "yes", "on", "1"}) {
    EXPECT_TRUE(read("[mail]\nenabled = " + std::string(word) + "\n").truth(config_key("mail", "enabled"))) << word;
  }
  for (const char* word : {"false", "no", "off", "0"}) {
    EXPECT_FALSE(read("[run]\nreport = " + std::string(word) + "\n").truth(config_key("run", "report"))) << word;
  }
  EXPECT_EQ(problems_of("[run]\nreport = maybe\n"),
            Words{"reveal.conf:2: \"report\" is true or false, not \"maybe\"; true is used"});
}

TEST(ConfigValues, AreReadInTheirForm) {
  const Config config = read(
      "[run]\nprobes = [\"cpu\", \"memory\"]\ninterval = 1s\n[slurm]\nspool_max = \"1MB\"\nmin_seconds = 3\n"
      "[mail]\nsendmail = \"/usr/bin/msmtp  -t\"\nadmins = [\"root\", \"\"]\n");
  EXPECT_TRUE(config.problems().empty());
  EXPECT_EQ(config.text(config_key("run", "probes")), "cpu,memory");
  EXPECT_EQ(config.time(config_key("run", "interval")), 1s);
  EXPECT_EQ(config.size(config_key("slurm", "spool_max")), 1'000'000U);
  EXPECT_EQ(config.whole(config_key("slurm", "min_seconds")), 3);
  EXPECT_EQ(config.list(config_key("mail", "sendmail")), (Words{"/usr/bin/msmtp", "-t"}));
  EXPECT_EQ(config.list(config_key("mail", "admins")), Words{"root"});
  EXPECT_EQ(config.place(config_key("run", "interval")), "reveal.conf:3");
  EXPECT_EQ(config.place(config_key("run", "node")), "");
}

TEST(ConfigMistakes, CostTheirOwnLineOnly) {
  const Config config = read("[slurm]\nreprot = \"lazy\"\nmin_secnods = 3\nreport = \"lazy\"\nretain = some\n");
  EXPECT_EQ(config.text(config_key("slurm", "report")), "lazy");
  EXPECT_EQ(config.text(config_key("slurm", "retain")), "full");
  EXPECT_EQ(config.problems_of({"slurm"}),
            (Words{"reveal.conf:2: unknown key \"reprot\" in [slurm]; did you mean \"report\"?",
                   "reveal.conf:3: unknown key \"min_secnods\" in [slurm]; did you mean \"min_seconds\"?",
                   "reveal.conf:5: \"retain\" is full, summary or rolling=TIME of at least 1min, not \"some\"; "
                   "\"full\" is used"}));
  EXPECT_TRUE(config.problems_of({"run"}).empty());
}

TEST(ConfigMistakes, DoNotBringBackADefaultThatDoesHarm) {
  for (const char* line : {"[slurm]\nkeep_days = \"365\n", "[slurm]\nkeep_days 365\n", "[slurm]\nkeepdays = 365\n",
                           "[slrum]\nkeep_days = 365\n"}) {
    Config config;
    config.read(line, "reveal.conf", ConfigOwner::site);
    EXPECT_EQ(config.whole(config_key("slurm", "keep_days")), 999) << line;
  }
  Config config;
  config.read("[slurm]\nkeep_days = 365\nnonsense\n[mail]\nper_huor = 5\n", "reveal.conf", ConfigOwner::site);
  EXPECT_EQ(config.whole(config_key("slurm", "keep_days")), 365);
  EXPECT_EQ(config.text(config_key("mail", "disable")), "/etc/reveal/no-mail") << "another key was meant";
}

TEST(ConfigMistakes, OfAStrongerSourceLeaveTheWeakerOneInForce) {
  Config config = read("[run]\ninterval = \"2s\"\n");
  config.read("[run]\ninterval = \"soon\"\n", "own.conf", ConfigOwner::user);
  const std::vector<std::string> names{"REVEAL_INTERVL", "REVEAL_INTERVAL", "REVEAL_DIR", "PATH"};
  config.read_environment(with("REVEAL_INTERVAL", "100"), names);
  EXPECT_EQ(config.time(config_key("run", "interval")), 2s);
  EXPECT_EQ(config.problems_of({"run"}),
            (Words{"own.conf:2: \"interval\" is a time from 10ms to 60s, not \"soon\"; \"2s\" is used",
                   "REVEAL_INTERVAL is a time from 10ms to 60s, not \"100\"; \"2s\" is used",
                   "no setting has the name REVEAL_INTERVL; did you mean REVEAL_INTERVAL?"}));
  EXPECT_EQ(problems_of("[run]\ninterval = [\"1s\", \"2s\"]\n"),
            Words{"reveal.conf:2: \"interval\" takes one value; \"100ms\" is used"});
}

TEST(ConfigSections, NameTheNearOneOfAMistypedOne) {
  EXPECT_EQ(problems_of("[mial]\n"), Words{"reveal.conf:1: unknown section [mial]; did you mean [mail]?"});
  EXPECT_EQ(problems_of("[slrum]\nx = 1\n"), Words{"reveal.conf:1: unknown section [slrum]; did you mean [slurm]?"});
  EXPECT_EQ(problems_of("[rul.\"cpu.outsider\"]\n"),
            Words{"reveal.conf:1: unknown section [rul.\"cpu.outsider\"]; did you mean [rule.\"cpu.outsider\"]?"});
  EXPECT_EQ(problems_of("[run.fast]\n"), Words{"reveal.conf:1: unknown section [run.fast]; did you mean [run]?"});
  EXPECT_EQ(problems_of("[rule]\n"), Words{"reveal.conf:1: [rule] names no rule; expected [rule.\"ID\"]"});
  EXPECT_EQ(problems_of("[probe.memory]\nanything = 1\n"), Words{"reveal.conf:1: unknown section [probe.memory]"});
}

TEST(ConfigSections, OfRulesAreLeftToThoseWhoKnowThem) {
  EXPECT_TRUE(problems_of("[rule.\"x\"]\nanything = 1\n").empty());
}

TEST(ConfigSections, OfTheSiteAreNotReadFromAUsersFile) {
  const std::string text = "[mail]\nenabled = true\n[slurm]\nkeep_days = 1\n[run]\nquiet = true\n";
  const Config config = read(text, ConfigOwner::user);
  EXPECT_FALSE(config.truth(config_key("mail", "enabled")));
  EXPECT_EQ(config.whole(config_key("slurm", "keep_days")), 7);
  EXPECT_TRUE(config.truth(config_key("run", "quiet")));
  EXPECT_EQ(config.problems_of({}), (Words{"reveal.conf:1: [mail] is the site's to set; it is not read from here",
                                           "reveal.conf:3: [slurm] is the site's to set; it is not read from here"}));
}

TEST(ConfigFiles, ThatCannotBeReadAreSaid) {
  const TemporaryDirectory directory;
  Config config;
  config.read_file(directory.path() / "none", ConfigOwner::site);
  EXPECT_TRUE(config.problems().empty());
  config.read_file(directory.path(), ConfigOwner::site);
  EXPECT_EQ(config.problems_of({}),
            Words{directory.path().string() + ": not a regular file; its settings do not apply"});
  std::ofstream((directory.path() / "target").string()) << "[run]\nquiet = true\n";
  std::filesystem::create_symlink("target", directory.path() / "link");
  config.read_file(directory.path() / "link", ConfigOwner::site);
  EXPECT_TRUE(config.truth(config_key("run", "quiet")));
}

TEST(ConfigFiles, AreTheSitesThenTheInstallationsThenTheUsers) {
  const auto places = config_places("/opt/reveal/bin/reveal", with("XDG_CONFIG_HOME", "/x"));
  ASSERT_GE(places.size(), 2U);
  EXPECT_EQ(places[0].file, "/etc/reveal/reveal.conf");
  EXPECT_EQ(places[1].file, "/opt/reveal/etc/reveal/reveal.conf");
  if (::geteuid() == 0) {
    EXPECT_EQ(places.size(), 2U);
  } else {
    ASSERT_EQ(places.size(), 3U);
    EXPECT_EQ(places[2].file, "/x/reveal/reveal.conf");
    EXPECT_EQ(places[2].owner, ConfigOwner::user);
  }
}

TEST(ConfigNames, FindTheirRow) {
  EXPECT_EQ(&find_config_key("slurm.keep_days"), &config_key("slurm", "keep_days"));
  try {
    static_cast<void>(find_config_key("slurm.keep_day"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "no key \"slurm.keep_day\"; did you mean \"slurm.keep_days\"?");
  }
}

}  // namespace
}  // namespace reveal::tests::config_test
