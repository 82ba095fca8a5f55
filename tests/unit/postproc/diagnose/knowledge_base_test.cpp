// Compares the known causes of slow jobs with the product: every cause is a rule or has a reason why not, and every
// probe is read by a rule or has a reason why not. The lists are in tests/data/rules.
#include <fnmatch.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "postproc/diagnose/collector_query.h"
#include "postproc/diagnose/rule.h"
#include "postproc/telemetry/derived.h"

namespace reveal::tests::knowledge_base_test {
namespace {

const std::filesystem::path kLists = std::filesystem::path(TEST_DATA) / "rules";
const std::filesystem::path kProduct = std::filesystem::path(TEST_DATA) / "../../postproc";

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool accepted() {
  return std::getenv("REVEAL_ACCEPT") != nullptr;
}

/// A line of a list: "id", or "id: why not", or "+ id: what for".
struct Entry {
  std::string id;
  std::string reason;
  bool beyond = false;
};

std::vector<Entry> entries(const char* list) {
  std::vector<Entry> all;
  std::istringstream lines(text_of(kLists / list));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    Entry entry{.beyond = line.starts_with("+ ")};
    const std::size_t begin = entry.beyond ? 2 : 0;
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
    EXPECT_TRUE(listed.insert(entry.id).second) << entry.id << " is listed twice";
    const bool expected = entry.beyond || entry.reason.empty();
    EXPECT_EQ(find_rule(entry.id) != nullptr, expected)
        << entry.id << (expected ? " is no rule: say why not" : " is a rule: take the reason away (REVEAL_ACCEPT=1)");
    EXPECT_TRUE(!entry.beyond || !entry.reason.empty()) << entry.id << ": what for?";
  }
  for (const RuleSpec* rule : rules()) {
    EXPECT_TRUE(listed.contains(std::string(rule->id))) << rule->id << " is not in tests/data/rules/knowledge_base.txt";
  }
}

TEST(KnowledgeBase, HasSeventyFiveCauses) {
  const auto all = entries("knowledge_base.txt");
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const Entry& entry) { return !entry.beyond; }), 75);
}

/// Every name of a metric in the sources of rules and comparisons, and the inputs of those that are computed.
std::set<std::string> metrics_of_rules() {
  const std::regex name(R"re("([a-z0-9_]+\.[A-Za-z0-9_.]+)")re");
  std::set<std::string> names;
  for (const char* folder : {"diagnose", "diagnose/rules", "peers"}) {
    for (const auto& entry : std::filesystem::directory_iterator(kProduct / folder)) {
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
