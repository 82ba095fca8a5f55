// Findings of peers and history are rows of the rule table like all others: listed, switched off, configured.
#include "postproc/diagnose/rule_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>

#include "config_of.h"
#include "postproc/diagnose/effective_rule.h"
#include "postproc/diagnose/run_rules.h"
#include "postproc/history/history.h"
#include "postproc/peers/job_rule.h"
#include "spmd_job.h"

namespace reveal::tests::rule_table_test {
namespace {

TEST(RuleTable, ListsAndExplainsPeersAndHistory) {
  const std::string text = rules_as_text({}, 80);
  for (const char* id : {"node.straggler", "node.differs", "history.slower", "history.drift", "history.changed"}) {
    EXPECT_NE(text.find("\n" + std::string(id) + "  "), std::string::npos) << id;
  }
}

TEST(RuleTable, ListsFamiliesTogetherAndOneAlone) {
  const std::string text = rules_as_text({}, 80);
  std::vector<std::string> seen;
  std::istringstream lines(text.substr(0, text.find("\n`reveal rules ID`")));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == ' ') continue;
    const std::string family(family_of(line));
    if (seen.empty() || seen.back() != family) seen.push_back(family);
  }
  EXPECT_EQ(seen, rule_families());
  const std::string net = rules_as_text({}, 80, "net");
  EXPECT_EQ(net.find("\ncpu."), std::string::npos) << net;
  for (const RuleSpec* rule : rules()) {
    const bool listed = ("\n" + net).find("\n" + std::string(rule->id) + " ") != std::string::npos;
    EXPECT_EQ(listed, family_of(rule->id) == "net") << rule->id;
  }
  EXPECT_NE(text.find("[check]"), std::string::npos);
}

TEST(RuleTable, ListsWhatASiteChanged) {
  const std::string text = rules_as_text(
      analysis_settings(config_of("[rule.\"cpu.outsider\"]\nmin_cpu = 0.3\n[rule.\"job.stopped\"]\nenabled = false\n")),
      80);
  EXPECT_NE(text.find("(thresholds changed)"), std::string::npos) << text;
  EXPECT_NE(text.find("(switched off)"), std::string::npos) << text;
}

TEST(RuleTable, SaysOfEveryRuleWhatItLooksForInLinesThatFit) {
  for (const RuleSpec* rule : rules()) {
    EXPECT_FALSE(rule->looks_for.empty()) << rule->id;
    EXPECT_EQ(rule->looks_for.substr(rule->looks_for.size() - 1), ".") << rule->id;
    const std::string text = rule_as_text(*rule, {}, 80);
    EXPECT_NE(text.find("proven by"), std::string::npos) << rule->id;
  }
  const std::string list = rules_as_text({}, 60);
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = list.find('\n', begin);
    const std::string line = list.substr(begin, end - begin);
    EXPECT_TRUE(line.size() <= 60 || line.starts_with("In reveal.conf")) << line;
    begin = end + 1;
  }
}

TEST(RuleTable, ExplainsOneRuleWithTheKeysOfReveal_conf) {
  const AnalysisSettings settings = analysis_settings(config_of("[rule.\"cpu.outsider\"]\nmin_cpu = 0.3\n"));
  const std::string text = rule_as_text(*find_rule("cpu.outsider"), settings, 120);
  EXPECT_NE(text.find("[rule.\"cpu.outsider\"]\n  enabled = true\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  min_cpu = 0.3                 # cpus: "), std::string::npos) << text;
  EXPECT_NE(text.find("(default"), std::string::npos) << text;
  EXPECT_NE(text.find("proven by    a real job"), std::string::npos) << text;
}

TEST(RuleTable, FoldsCommentsIntoCommentsSoThatALineCanBePasted) {
  for (const RuleSpec* rule : rules()) {
    const std::string text = rule_as_text(*rule, {}, 70);
    const std::size_t keys = text.find("\nIn reveal.conf");
    std::istringstream lines(text.substr(text.find("[rule.", keys)));
    for (std::string line; std::getline(lines, line);) {
      line.erase(0, line.find_first_not_of(' '));
      const bool setting = line.find(" = ") != std::string::npos && line.find('#') > line.find(" = ");
      EXPECT_TRUE(line.starts_with("[") || line.starts_with("#") || setting) << rule->id << ": " << line;
    }
  }
  const std::string outsider = rule_as_text(*find_rule("cpu.outsider"), {}, 80);
  EXPECT_NE(outsider.find("\n  min_cpu = 0.15                # cpus: least cpu time of outsiders above the\n"
                          "                                # usual level\n"),
            std::string::npos)
      << outsider;
  EXPECT_NE(rule_as_text(*find_rule("cpu.outsider"), {}, 40)
                .find("# on {node}, in the next\n               # run: the other busy\n               # processes and "
                      "their\n               # cpus\n"),
            std::string::npos);
}

TEST(RuleTable, RefusesAFindingWithoutARow) {
  const AnalysisSettings settings;
  EXPECT_THROW(static_cast<void>(EffectiveRule("node.unheard_of", settings)), std::logic_error);
}

std::vector<Finding> found_in(const PeerComparison& comparison, const AnalysisSettings& settings) {
  return run_job_rules({.comparison = comparison, .nodes = {}, .job = {}}, settings);
}

TEST(RuleTable, LetsASiteSwitchPeersOffAndSetTheirThresholds) {
  SpmdJob job;
  job.own_time = true;
  job.shift = 0.35;
  job.odd_node = 1;
  job.shifted = 0;
  const auto profiles = job.record();
  AnalysisSettings settings;
  ASSERT_EQ(found_in(compare_peers(pointers(profiles), settings), settings).size(), 1U);
  settings = analysis_settings(config_of("[rule.\"node.straggler\"]\nmin_percent = 60\n"));
  EXPECT_TRUE(found_in(compare_peers(pointers(profiles), settings), settings).empty());
  const AnalysisSettings off = analysis_settings(config_of("[rule.\"node.straggler\"]\nenabled = false\n"));
  EXPECT_TRUE(found_in(compare_peers(pointers(profiles), off), off).empty());
  const Telemetry telemetry;
  const Detection detection;
  const Snapshot nothing;
  std::vector<NotChecked> not_checked;
  static_cast<void>(run_rules({telemetry, detection, nothing, nothing, {}}, off, not_checked));
  EXPECT_TRUE(std::any_of(not_checked.begin(), not_checked.end(), [](const NotChecked& one) {
    return one.rule == "node.straggler" && one.reason.find("switched off") != std::string::npos;
  }));
}

TEST(RuleTable, LetsASiteSetWhatCountsAsSlower) {
  std::vector<RunRecord> earlier;
  for (int i = 0; i < 6; ++i) {
    RunRecord record;
    record.key = "train 4";
    record.run_id = "run" + std::to_string(i);
    record.begin_utc_ns = 1'000'000'000'000 * (i + 1);
    record.seconds = 100 + 0.1 * i;
    record.accepted = true;
    earlier.push_back(record);
  }
  RunRecord slow = earlier.back();
  slow.run_id = "now";
  slow.begin_utc_ns *= 2;
  slow.seconds = 130;
  AnalysisSettings settings;
  const auto found = history_findings(compare_runs(slow, earlier, settings), {"n1"}, {1, 2}, settings);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].id, "history.slower");
  EXPECT_EQ(found[0].runner_up.id, "");
  EXPECT_EQ(found[0].severity, Severity::warning);
  settings = analysis_settings(config_of("[rule.\"history.slower\"]\nwarning_percent = 50\n"));
  EXPECT_EQ(history_findings(compare_runs(slow, earlier, settings), {"n1"}, {1, 2}, settings).at(0).severity,
            Severity::notice);
  settings = analysis_settings(config_of("[rule.\"history.slower\"]\nmin_percent = 40\n"));
  EXPECT_TRUE(history_findings(compare_runs(slow, earlier, settings), {"n1"}, {1, 2}, settings).empty());
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::filesystem::path kSources = std::filesystem::path(TEST_DATA) / "../../postproc";

/// Calls `look` with every match of `pattern`.
void each(const std::string& text, const std::string& pattern, const std::function<void(const std::smatch&)>& look) {
  const std::regex wanted(pattern);
  for (std::sregex_iterator at(text.begin(), text.end(), wanted); at != std::sregex_iterator(); ++at) look(*at);
}

TEST(RuleTable, NamesNoRuleThatDoesNotExist) {
  for (const RuleSpec* rule : rules()) {
    each(std::string(rule->look_alikes), "[^,]+", [&](const std::smatch& alike) {
      if (alike.str().find('.') != std::string::npos) {
        EXPECT_NE(find_rule(alike.str()), nullptr) << rule->id << ": " << alike.str();
      }
    });
  }
  int runners_up = 0;
  const char* const assigned = R"re((?:runner_up(?:\.id)? =|RunnerUp(?: [a-z_]+)?)\s*\{?\s*"([^"]*)")re";
  // The functions of rules return runners-up and nothing else that begins with a text; those of other folders do.
  const char* const returned = R"re(return\s*\{\s*"([^"]*)")re";
  const std::pair<const char*, const char*> places[] = {
      {"diagnose", assigned}, {"diagnose/rules", returned}, {"peers", assigned}, {"history", assigned}};
  for (const auto& [folder, pattern] : places) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(kSources / folder)) {
      if (!entry.is_regular_file()) continue;
      each(text_of(entry.path()), pattern, [&](const std::smatch& named) {
        ++runners_up;
        EXPECT_TRUE(named[1].str().empty() || find_rule(named[1].str()) != nullptr) << entry.path() << named.str();
      });
    }
  }
  EXPECT_GT(runners_up, 80) << "a pattern no longer matches the sources";
}

/// "used 1 cpus" is read twice: counted() and quantity() have the singular. A part of several, "2 of the {} cpus",
/// needs none.
TEST(RuleTable, LeavesTheNumberOfCpusToTheWords) {
  const std::regex part_of(R"(\bof ([a-z]+ )?$)");
  for (const char* folder : {"diagnose", "peers", "report"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(kSources / folder)) {
      if (entry.path().extension() != ".cpp") continue;
      each(text_of(entry.path()), R"(\{\} (cpus|processes)\b)", [&](const std::smatch& number) {
        const std::string before = number.prefix();
        const std::string words = before.substr(before.size() - std::min<std::size_t>(before.size(), 30));
        EXPECT_TRUE(std::regex_search(words, part_of)) << entry.path() << ": " << words << number.str();
      });
    }
  }
}

TEST(RuleTable, LeavesNoBlankAndNamesNoCommandThatDoesNotExist) {
  const auto check = [](std::string_view id, const std::string& line) {
    EXPECT_EQ(line.find(" <"), line.find(" <(")) << id << ": " << line;
    each(line, "(^|[ `;])reveal ([a-z]+)((?: --[a-z-]+)*)", [&](const std::smatch& command) {
      const std::string source = text_of(kSources / "commands" / (command[2].str() + ".cpp"));
      EXPECT_FALSE(source.empty()) << id << ": " << line;
      const std::string shared = source + text_of(kSources / "commands/shared_options.cpp");
      each(command[3].str(), "--[a-z-]+", [&](const std::smatch& option) {
        EXPECT_NE(shared.find('"' + option.str()), std::string::npos) << id << ": " << line;
      });
    });
  };
  for (const RuleSpec* rule : rules()) {
    for (const auto* lines : {&rule->user_remedy, &rule->advice, &rule->admin_remedy}) {
      for (const RemedyLine& line : *lines) check(rule->id, std::string(line.text));
    }
    check(rule->id, verify_words(*rule));
  }
}

TEST(RuleTable, TellsWithEachRemedyTheCommandThatVerifiesItAndTheExpectedValue) {
  const std::regex command(R"re(^Run `[^`]+`( [a-z][^`:]*)?: expected [^`]+\.$)re");
  const std::regex next_run(R"re(^Run the job again, then `reveal show NEXT_RUN`: expected no finding [^`]+\.$)re");
  for (const RuleSpec* rule : rules()) {
    const std::string words = verify_words(*rule);
    EXPECT_TRUE(std::regex_match(words, command) || std::regex_match(words, next_run)) << rule->id << ": " << words;
    EXPECT_EQ(rule->verify.command.empty(), std::regex_match(words, next_run)) << rule->id;
  }
  EXPECT_EQ(verify_words(*find_rule("cpu.outsider")),
            "Run the job again, then `reveal show NEXT_RUN`: expected no finding cpu.outsider (job.outsider_cpu below "
            "0.1 cpus).");
  EXPECT_EQ(verify_words(*find_rule("cpu.clocksource_not_tsc")),
            "Run `cat /sys/devices/system/clocksource/clocksource0/current_clocksource` on each node: expected tsc.");
}

TEST(RuleTable, GivesSlurmsLinesOnlyUnderSlurm) {
  const std::regex slurm(R"re(sbatch|SBATCH|srun|scontrol|slurm|cgroup\.conf|SLURM)re");
  const JobValues elsewhere{{"nodes", "n1"},       {"peer", "n2"},     {"command", "train"}, {"binary", "train"},
                            {"python", "python3"}, {"torch", "yes"},   {"nccl", "yes"},      {"free_cpus", "0-1"},
                            {"cgroup", "/a"},      {"numa_node", "0"}, {"quota_cpus", "2"},  {"outsider", "yes"}};
  JobValues in_slurm = elsewhere;
  in_slurm["job"] = "4711";
  std::size_t more = 0;
  for (const RuleSpec* rule : rules()) {
    const Remedy remedy = remedy_for(*rule, elsewhere);
    for (const auto* lines : {&remedy.user, &remedy.advice, &remedy.admin}) {
      for (const std::string& line : *lines) EXPECT_FALSE(std::regex_search(line, slurm)) << rule->id << ": " << line;
    }
    more += remedy_for(*rule, in_slurm).user.size() > remedy.user.size() ? 1 : 0;
  }
  EXPECT_GE(more, 5U);
}

/// That every line can be pasted is shown with a shell by remedy_lines_test.py.
TEST(RuleTable, HasLinesToTypeAndSentencesInTheirPlaces) {
  const std::regex sentence(R"re(^[A-Z].*\.$)re");
  const std::regex setting(R"re(^(/etc/)?[a-z_]+\.(conf|service): [A-Z][A-Za-z_]*=)re");
  for (const RuleSpec* rule : rules()) {
    for (const auto* lines : {&rule->user_remedy, &rule->advice, &rule->admin_remedy}) {
      for (const RemedyLine& line : *lines) {
        const std::string text(line.text);
        const bool said = std::regex_match(text, sentence);
        EXPECT_EQ(text.find("..."), std::string::npos) << rule->id << ": " << text;
        EXPECT_EQ(text.find("{command}"), std::string::npos) << rule->id << ": a name is no command line: " << text;
        EXPECT_EQ(text.ends_with('.'), lines == &rule->advice || said) << rule->id << ": " << text;
        if (lines != &rule->user_remedy) continue;
        EXPECT_FALSE(said) << rule->id << ": advice instead of " << text;
        EXPECT_FALSE(std::regex_search(text, setting)) << rule->id << ": " << text;
        EXPECT_FALSE(text.starts_with("sbatch ")) << rule->id << ": #SBATCH instead of " << text;
      }
    }
  }
}

TEST(Remedy, FoldsAndQuotesNodesAndRepeatsALineForEachOfSeveralValues) {
  const std::vector<RemedyLine> lines{"#SBATCH --exclude={nodes}   # {nodes}", "df {mount}   # on {nodes}"};
  const JobValues values{{"nodes", "gpu-a100-[0001-2000],login"}, {"mount", "/work\n/scratch"}};
  const std::vector<std::string> filled{"#SBATCH --exclude='gpu-a100-[0001-2000],login'   # gpu-a100-[0001-2000],login",
                                        "df /work   # on gpu-a100-[0001-2000],login",
                                        "df /scratch   # on gpu-a100-[0001-2000],login"};
  EXPECT_EQ(lines_for(lines, values), filled);
  for (const std::string& line : filled) EXPECT_TRUE(is_one_of(line, lines)) << line;
  for (const char* line :
       {"#SBATCH --exclude=n[1-2]   # n1", "#SBATCH --exclude='n1;id'   # n1", "df 'a b'   # on n1",
        "#SBATCH --exclude='n[1-2]", "#SBATCH --exclude='n[1-2]   # n1", "#SBATCH --exclude=''   # n1"}) {
    EXPECT_FALSE(is_one_of(line, lines)) << line;
  }
  EXPECT_TRUE(lines_for(lines, {{"nodes", "n1"}, {"mount", "/my files"}}).size() == 1);
}

Finding finding_of_rule(std::string_view id, Remedy remedy) {
  Finding finding;
  finding.id = id;
  finding.remedy = std::move(remedy);
  return finding;
}

TEST(Remedy, LooksIntoAProgramWithAToolForItsLanguage) {
  const auto tools = [](std::string_view rule, std::string_view command) {
    Finding finding;
    finding.nodes = {"n1"};
    const JobValues values = job_values(finding, {.id = {}, .command = command, .nodes = {}});
    std::string found;
    for (const std::string& line : remedy_for(*find_rule(rule), values).user) {
      for (const char* tool : {"py-spy", "eu-stack"}) {
        if (line.find(tool) != std::string::npos) found += std::string(tool) + ' ';
      }
    }
    return found;
  };
  for (const std::string_view rule : {"stack.late_rank", "stack.hang", "stack.stall"}) {
    EXPECT_EQ(tools(rule, "python3.11"), "py-spy ");
    EXPECT_EQ(tools(rule, "solver"), "eu-stack ");
    EXPECT_EQ(tools(rule, "bash"), "") << "a script starts another program";
  }
}

TEST(Remedy, TellsAlternativesWhereTheFindingHasTheLineBefore) {
  const char* const kBackground =
      "Ask for more than 2G of memory: the job had so much in memory and in swap at one time.";
  const char* const kLess = "Use less memory at once: smaller batches, fewer workers.";
  const RemedyTexts both = steps_of(finding_of_rule("mem.swap_activity", {.advice = {kBackground, kLess}}));
  EXPECT_EQ(kinds_of(both.advice), (std::vector<StepKind>{StepKind::next, StepKind::alternative}));
  const RemedyTexts alone = steps_of(finding_of_rule("mem.swap_activity", {.advice = {kLess}}));
  EXPECT_EQ(kinds_of(alone.advice), std::vector<StepKind>{StepKind::next});
  const RemedyTexts unknown = steps_of(finding_of_rule("a.rule_of_a_later_version", {.advice = {kBackground, kLess}}));
  EXPECT_EQ(kinds_of(unknown.advice), (std::vector<StepKind>{StepKind::next, StepKind::next}));
}

TEST(Remedy, NumbersNoAdviceOfWhichOneIsEnough) {
  struct Row {
    const char* rule;
    JobValues values;
  };
  const Row rows[] = {{"stack.input_wait", {}},
                      {"stack.gc_pauses", {}},
                      {"io.metadata_storm", {}},
                      {"io.local_disk_saturated", {{"torch", "yes"}}},
                      {"gpu.starved_input", {{"torch", "yes"}, {"workers", "7"}}},
                      {"gpu.small_kernels", {{"torch", "yes"}}},
                      {"mem.leak_oom_risk", {{"trains", "yes"}}},
                      {"cpu.cfs_throttled", {{"node", "n1"}}}};
  for (const auto& [rule, values] : rows) {
    const RemedyTexts steps = steps_of(finding_of_rule(rule, remedy_for(*find_rule(rule), values)));
    ASSERT_GT(steps.advice.size(), 1U) << rule;
    for (std::size_t i = 1; i < steps.advice.size(); ++i) {
      EXPECT_EQ(steps.advice[i].kind, StepKind::alternative) << rule << ": " << steps.advice[i].text;
    }
  }
}

TEST(Remedy, TellsAdviceFromTheLinesOfTheUser) {
  const RemedyTexts steps =
      steps_of(finding_of_rule("mem.bw_saturated", {.user = {"#SBATCH --hint=memory_bound   # one core per socket, "
                                                             "therefore more nodes"},
                                                    .advice = {"Accept it, or move less data: block loops for the "
                                                               "cache, fuse kernels, use lower precision."}}));
  EXPECT_EQ(kinds_of(steps.user), std::vector<StepKind>{StepKind::next});
  EXPECT_EQ(kinds_of(steps.advice), std::vector<StepKind>{StepKind::alternative});
}

TEST(Remedy, FindsTheProcessesOfAProgramAndNotThoseOfAShell) {
  EXPECT_EQ(process_name("python3.11"), "python3.11");
  EXPECT_EQ(process_name("a_very_long_solver"), "a_very_long_sol");
  for (const char* launcher : {"sh", "bash", "taskset", "torchrun", "srun"}) EXPECT_EQ(process_name(launcher), "");
}

TEST(Remedy, LeavesOutWhatIsNotKnownAndWhatIsNoPlainWord) {
  const std::vector<RemedyLine> lines{"a {x} b {y}", {"needs x", "x"}, {"without x", "!x"}, {"z, but not x", "z,!x"}};
  EXPECT_EQ(lines_for(lines, {}), std::vector<std::string>{"without x"});
  EXPECT_EQ(lines_for(lines, {{"z", "1"}}), (std::vector<std::string>{"without x", "z, but not x"}));
  EXPECT_EQ(lines_for(lines, {{"x", "1"}, {"z", "1"}}), std::vector<std::string>{"needs x"});
  EXPECT_EQ(lines_for(lines, {{"x", "1"}, {"y", "n1,n2"}}), (std::vector<std::string>{"a 1 b n1,n2", "needs x"}));
  EXPECT_EQ(lines_for(lines, {{"x", "1"}, {"y", "$(rm -rf ~)"}}), std::vector<std::string>{"needs x"});
}

}  // namespace
}  // namespace reveal::tests::rule_table_test
