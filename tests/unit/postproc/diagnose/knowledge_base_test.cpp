// Compares the known causes of slow jobs with the product: every cause is a rule or has a reason why not, every rule is
// tried where its proof says, and every probe is read by a rule or has a reason why not. The lists are in
// tests/data/rules.
#include <fnmatch.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/collector_query.h"
#include "postproc/diagnose/rule.h"
#include "postproc/telemetry/derived.h"

namespace reveal::tests::knowledge_base_test {
namespace {

const std::filesystem::path kLists = std::filesystem::path(TEST_DATA) / "rules";
const std::filesystem::path kSource = std::filesystem::path(TEST_DATA) / "../..";

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool accepted() {
  return std::getenv("REVEAL_ACCEPT") != nullptr;
}

/// A line of a list: "id", or "id: why not", or "+ id: what for", or "~ id: what a measurement changed".
struct Entry {
  enum class Kind : std::uint8_t { cause, beyond, changed };
  std::string id;
  std::string reason;
  Kind kind = Kind::cause;
};

std::vector<Entry> entries(const char* list) {
  std::vector<Entry> all;
  std::istringstream lines(text_of(kLists / list));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    Entry entry;
    if (line.starts_with("+ ")) entry.kind = Entry::Kind::beyond;
    if (line.starts_with("~ ")) entry.kind = Entry::Kind::changed;
    const std::size_t begin = entry.kind == Entry::Kind::cause ? 0 : 2;
    const std::size_t colon = std::min(line.find(": "), line.size());
    entry.id = line.substr(begin, colon - begin);
    entry.reason = line.substr(std::min(colon + 2, line.size()));
    all.push_back(std::move(entry));
  }
  return all;
}

/// Takes away the lines or reasons that are no longer true; new ones are written by a person.
void rewrite(const char* list, const std::function<std::string(const std::string&)>& changed) {
  std::istringstream lines(text_of(kLists / list));
  std::string text;
  for (std::string line; std::getline(lines, line);) text += changed(line);
  std::ofstream(kLists / list) << text;
}

TEST(KnowledgeBase, IsARuleOfTheProductOrSaysWhyNot) {
  if (accepted()) {
    rewrite("knowledge_base.txt", [](const std::string& line) {
      const std::string id = line.substr(0, line.find(": "));
      return (find_rule(id) != nullptr ? id : line) + '\n';
    });
  }
  std::set<std::string> listed;
  for (const Entry& entry : entries("knowledge_base.txt")) {
    if (entry.kind == Entry::Kind::changed) continue;
    EXPECT_TRUE(listed.insert(entry.id).second) << entry.id << " is listed twice";
    const bool beyond = entry.kind == Entry::Kind::beyond;
    const bool expected = beyond || entry.reason.empty();
    EXPECT_EQ(find_rule(entry.id) != nullptr, expected)
        << entry.id << (expected ? " is no rule: say why not" : " is a rule: take the reason away (REVEAL_ACCEPT=1)");
    EXPECT_TRUE(!beyond || !entry.reason.empty()) << entry.id << ": what for?";
  }
  for (const RuleSpec* rule : rules()) {
    EXPECT_TRUE(listed.contains(std::string(rule->id))) << rule->id << " is not in tests/data/rules/knowledge_base.txt";
  }
}

std::vector<Entry> causes() {
  std::vector<Entry> all = entries("knowledge_base.txt");
  std::erase_if(all, [](const Entry& entry) { return entry.kind != Entry::Kind::cause; });
  return all;
}

TEST(KnowledgeBase, HasSeventyFiveCauses) {
  EXPECT_EQ(causes().size(), 75U);
}

TEST(KnowledgeBase, SaysOfACauseWhatAMeasurementChanged) {
  std::set<std::string> known;
  for (const Entry& entry : causes()) known.insert(entry.id);
  std::set<std::string> changed;
  for (const Entry& entry : entries("knowledge_base.txt")) {
    if (entry.kind != Entry::Kind::changed) continue;
    EXPECT_TRUE(known.contains(entry.id)) << entry.id << " is no cause of the list";
    EXPECT_TRUE(changed.insert(entry.id).second) << entry.id << " has two lines";
    EXPECT_FALSE(entry.reason.empty()) << entry.id << ": what was changed?";
  }
  EXPECT_FALSE(changed.empty());
}

/// Where the jobs or recordings are that prove rules.
struct Trials {
  Proof proof;
  const char* folder;
  const char* files;   // a pattern
  const char* around;  // one of these is before and after the id of a rule, or nothing is
};
constexpr const char* kQuotes = "\"";
constexpr const char* kWords = " =\"'";
constexpr Trials kTrials[] = {{Proof::real, "tests/lab", "scenario_table.py", kQuotes},
                              {Proof::real, "tests/integration", "stack_rules_test.py", kQuotes},
                              {Proof::real, "tests/integration", "stack_test.py", kQuotes},
                              {Proof::real, "tests/integration/slurm", "requests.bats", kQuotes},
                              {Proof::real, "bench", "gpu_machine.py", kQuotes},
                              {Proof::guest, "tests/guest", "*.sh", kWords},
                              {Proof::recorded, "bench", "gpu_machine.py", kQuotes},
                              {Proof::recorded, "tests/unit/postproc/diagnose/rules", "cpu_steal_test.cpp", kQuotes}};

bool names_rule(const std::string& line, std::string_view id, std::string_view around) {
  for (std::size_t at = line.find(id); at != std::string::npos; at = line.find(id, at + 1)) {
    const std::size_t end = at + id.size();
    const bool begins = at == 0 || around.find(line[at - 1]) != std::string_view::npos;
    if (begins && (end == line.size() || around.find(line[end]) != std::string_view::npos)) return true;
  }
  return false;
}

constexpr std::string_view kNoJob[] = {"#", "//", "mine=", "mine+=", "local mine="};

/// A comment, or the list of the rules that a guest tests: they name a rule without a job.
bool is_without_job(const std::string& line) {
  const std::string_view text = std::string_view(line).substr(std::min(line.find_first_not_of(' '), line.size()));
  return std::any_of(std::begin(kNoJob), std::end(kNoJob),
                     [&](std::string_view first) { return text.starts_with(first); });
}

bool is_tried(const RuleSpec& rule) {
  for (const Trials& trials : kTrials) {
    if (trials.proof != rule.proof) continue;
    for (const auto& entry : std::filesystem::directory_iterator(kSource / trials.folder)) {
      if (::fnmatch(trials.files, entry.path().filename().c_str(), 0) != 0) continue;
      std::istringstream text(text_of(entry.path()));
      for (std::string line; std::getline(text, line);) {
        if (!is_without_job(line) && names_rule(line, rule.id, trials.around)) return true;
      }
    }
  }
  return false;
}

TEST(KnowledgeBase, IsTriedWhereItsProofSays) {
  for (const RuleSpec* rule : rules()) {
    if (rule->proof == Proof::test_double) continue;
    EXPECT_TRUE(is_tried(*rule)) << rule->id << ": no job or recording that its proof (" << name_of(rule->proof)
                                 << ") stands for; Proof::test_double needs none";
  }
}

using CountOfProofs = std::array<int, 4>;  // in the order of Proof

int& count_of(CountOfProofs& counts, Proof proof) {
  return counts[static_cast<std::size_t>(proof)];
}

int sum_of(const CountOfProofs& counts) {
  return std::accumulate(counts.begin(), counts.end(), 0);
}

std::string row_of(const char* first, const CountOfProofs& counts) {
  std::string row = std::string("| ") + first + " | " + std::to_string(sum_of(counts));
  for (const int count : counts) row += " | " + std::to_string(count);
  return row + " |";
}

TEST(KnowledgeBase, IsCountedByProofInTheReadme) {
  CountOfProofs known{};
  CountOfProofs all{};
  for (const RuleSpec* rule : rules()) ++count_of(all, rule->proof);
  for (const Entry& entry : causes()) {
    const RuleSpec* rule = find_rule(entry.id);
    if (rule != nullptr) ++count_of(known, rule->proof);
  }
  EXPECT_GE(sum_of(known), 60);
  EXPECT_GE(count_of(known, Proof::real) + count_of(known, Proof::guest), 40);
  const std::string readme = text_of(kSource / "README.md");
  for (const std::string& row : {row_of("known causes", known), row_of("all rules", all)}) {
    EXPECT_NE(readme.find(row), std::string::npos) << "README.md lacks " << row;
  }
}

/// Every name of a metric in the sources of rules and comparisons, and the inputs of those that are computed.
std::set<std::string> metrics_of_rules() {
  const std::regex name(R"re("([a-z0-9_]+\.[A-Za-z0-9_.]+)")re");
  std::set<std::string> names;
  for (const char* folder : {"diagnose", "diagnose/rules", "peers"}) {
    for (const auto& entry : std::filesystem::directory_iterator(kSource / "postproc" / folder)) {
      if (entry.path().extension() != ".cpp") continue;
      const std::string text = text_of(entry.path());
      for (std::sregex_iterator at(text.begin(), text.end(), name), end; at != end; ++at) names.insert((*at)[1].str());
    }
  }
  for (const std::string& metric : std::set<std::string>(names)) {
    for (const std::string_view input : inputs_of_derived(metric)) names.emplace(input);
  }
  return names;
}

/// "mem.<key>" stands for every key.
bool fits(std::string pattern, const std::set<std::string>& names) {
  if (const std::size_t open = pattern.find('<'); open != std::string::npos) {
    pattern.replace(open, pattern.rfind('>') + 1 - open, "*");
  }
  return pattern != "*" && std::any_of(names.begin(), names.end(), [&](const std::string& name) {
           return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
         });
}

TEST(KnowledgeBase, IsFedByEveryProbeOrSaysWhyNot) {
  const std::set<std::string> names = metrics_of_rules();
  ASSERT_TRUE(names.contains("cpu.steal")) << "the pattern no longer matches the sources";
  std::map<std::string, bool> feeds;
  for (const auto& probe : nlohmann::json::parse(probes_as_json())) {
    if (probe.at("name") == "derived") continue;
    bool& any = feeds[probe.at("name").get<std::string>()];
    for (const auto& metric : probe.at("metrics")) any = any || fits(metric.at("name").get<std::string>(), names);
  }
  if (accepted()) {
    rewrite("probes_without_rule.txt", [&](const std::string& line) {
      const auto probe = feeds.find(line.substr(0, line.find(": ")));
      return probe != feeds.end() && probe->second ? "" : line + '\n';
    });
  }
  std::set<std::string> excused;
  for (const Entry& entry : entries("probes_without_rule.txt")) {
    excused.insert(entry.id);
    EXPECT_FALSE(entry.reason.empty()) << entry.id;
    EXPECT_TRUE(feeds.contains(entry.id)) << entry.id << " is no probe";
    EXPECT_FALSE(feeds[entry.id]) << entry.id << " feeds a rule: take its line away (REVEAL_ACCEPT=1)";
  }
  for (const auto& [probe, any] : feeds) {
    EXPECT_TRUE(any || excused.contains(probe))
        << "no rule reads " << probe << "; a line of tests/data/rules/probes_without_rule.txt says why";
  }
}

}  // namespace
}  // namespace reveal::tests::knowledge_base_test
