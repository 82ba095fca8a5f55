#include "rules_tried.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "postproc/diagnose/rule.h"

namespace reveal {
namespace {

using Check = decltype(RuleSpec::check);

struct Outcomes {
  bool reported = false;
  bool silent = false;
};

std::map<std::string_view, Check>& own_checks() {
  static std::map<std::string_view, Check> checks;
  return checks;
}
/// Outcomes of the running test: filled by all code that runs rules, and by tried().
std::map<std::string, Outcomes>& asked() {
  static std::map<std::string, Outcomes> outcomes;
  return outcomes;
}
std::map<std::string, Outcomes>& declared() {
  static std::map<std::string, Outcomes> outcomes;
  return outcomes;
}

/// Stands for the check of every rule. One that throws neither reported nor was silent: it could not look.
std::vector<Finding> noted(const RuleContext& context) {
  std::vector<Finding> findings = own_checks().at(context.spec.id)(context);
  Outcomes& outcomes = asked()[std::string(context.spec.id)];
  (findings.empty() ? outcomes.silent : outcomes.reported) = true;
  return findings;
}

class Notes final : public ::testing::EmptyTestEventListener {
 public:
  explicit Notes(const char* path) : path_(path) {}

  void OnTestProgramStart(const ::testing::UnitTest& /*unit*/) override {
    for (const RuleSpec* rule : rules()) {
      if (rule->check == nullptr) continue;
      own_checks()[rule->id] = rule->check;
      const_cast<RuleSpec*>(rule)->check = noted;  // NOLINT(cppcoreguidelines-pro-type-const-cast): in tests only
    }
  }
  void OnTestStart(const ::testing::TestInfo& /*test*/) override {
    asked().clear();
    declared().clear();
  }
  void OnTestEnd(const ::testing::TestInfo& test) override {
    constexpr std::size_t kOfItsOwn = 3;  // more are run by a test of something else
    if (test.result()->Failed() || test.result()->Skipped()) return;
    const std::string name = std::string(test.test_suite_name()) + '.' + test.name();
    if (asked().size() <= kOfItsOwn) write(asked(), name);
    write(declared(), name);
  }

 private:
  void write(const std::map<std::string, Outcomes>& outcomes, const std::string& test) const {
    std::ofstream file(path_, std::ios::app);
    for (const auto& [rule, seen] : outcomes) {
      if (seen.reported) file << rule << " reported " << test << '\n';
      if (seen.silent) file << rule << " silent " << test << '\n';
    }
  }

  std::string path_;
};

const bool kListening = [] {
  const char* path = std::getenv("REVEAL_RULES_TRIED");
  if (path != nullptr) ::testing::UnitTest::GetInstance()->listeners().Append(new Notes(path));  // gtest deletes it
  return path != nullptr;
}();

}  // namespace

std::vector<Finding> tried(std::span<const std::string_view> rules, std::vector<Finding> findings) {
  if (!kListening) return findings;
  for (const std::string_view rule : rules) {
    if (findings.empty()) declared()[std::string(rule)].silent = true;
    const bool reported =
        std::any_of(findings.begin(), findings.end(), [rule](const Finding& finding) { return finding.id == rule; });
    if (reported) declared()[std::string(rule)].reported = true;
  }
  return findings;
}

}  // namespace reveal
