#include "postproc/compare/backtest.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "hdf5schema/basics/error.h"
#include "postproc/commands/confined.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/diagnose/rule.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

constexpr ConfinedLimits kBacktestLimits{
    .answer = std::size_t{1} << 20, .cpu = std::chrono::seconds(600), .time = std::chrono::seconds(1200)};

class BacktestCommand final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions& common) override {
    add_config_option(app, common);
    app.add_option("words", words_, "rules, then the directories of jobs")->required()->type_name("RULE|DIR");
    app.add_option("--set", set_, "the threshold to try: KEY=VALUE, or RULE.KEY=VALUE; see reveal rules RULE")
        ->required()
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
  }

  int run(const CommonOptions& common) override {
    Backtest backtest;
    const std::vector<std::string> rules = take_rules();
    const Config in_force = common.configuration();
    for (const std::string& problem : in_force.problems_of({"report", "rule"})) complain(problem);
    Config changed = in_force;
    for (const std::string& text : set_) change(text, rules, in_force, changed, backtest);
    const AnalysisSettings before = analysis_settings(in_force);
    const AnalysisSettings after = analysis_settings(changed);
    for (const fs::path& directory : take_directories()) {
      backtest.jobs.push_back(ask(directory, before, after, rules));
    }
    backtest.totals = totals_of(backtest.jobs, rules);
    print(common.json ? backtest_as_json(backtest) : backtest_as_text(backtest, common.style()));
    const bool any = std::any_of(backtest.jobs.begin(), backtest.jobs.end(),
                                 [](const BacktestedJob& job) { return job.failure.empty(); });
    return any ? 0 : kFailure;
  }

 private:
  /// The words up to the first that is no rule; directories are left.
  std::vector<std::string> take_rules() {
    std::vector<std::string> rules;
    std::size_t taken = 0;
    for (; taken < words_.size(); ++taken) {
      const RuleSpec* rule = find_rule(words_[taken]);
      if (rule == nullptr) break;
      if (rule->id.starts_with("history.")) {
        throw Error(std::string(rule->id) + " compares with earlier runs; only rules about one job can be tried");
      }
      if (std::find(rules.begin(), rules.end(), rule->id) == rules.end()) rules.emplace_back(rule->id);
    }
    if (rules.empty()) throw Error("no rule \"" + words_.front() + "\"; see reveal rules");
    words_.erase(words_.begin(), words_.begin() + static_cast<std::ptrdiff_t>(taken));
    if (words_.empty()) throw Error("give the directories of jobs behind the rules; see reveal backtest --help");
    return rules;
  }

  /// Each once: `reveal-* reveal-4711` is no two jobs more. Throws Error where one is none.
  [[nodiscard]] std::vector<fs::path> take_directories() const {
    std::vector<fs::path> directories;
    std::set<fs::path> seen;
    for (const std::string& word : words_) {
      const std::string directory = directory_of_number(word);
      need_directory(directory);
      std::error_code error;
      if (seen.insert(fs::weakly_canonical(directory, error)).second) directories.emplace_back(directory);
    }
    return directories;
  }

  /// A bare key is that of each rule that has it.
  static void change(const std::string& text, const std::vector<std::string>& rules, const Config& in_force,
                     Config& changed, Backtest& backtest) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) throw Error("\"" + text + "\" is no KEY=VALUE");
    const std::string name = text.substr(0, equals);
    const std::string value = text.substr(equals + 1);
    bool known = false;
    for (const std::string& rule : rules) {
      const RuleSpec& spec = *find_rule(rule);
      const std::string key = name.starts_with(rule + ".") ? name.substr(rule.size() + 1) : name;
      const bool has = key == "enabled" || std::any_of(spec.thresholds.begin(), spec.thresholds.end(),
                                                       [&](const Threshold& one) { return one.name == key; });
      if (!has) continue;
      const ConfigKey& row = find_config_key("rule." + rule + "." + key);
      const std::string mistake = changed.set(row, {value}, "--set");
      if (!mistake.empty()) throw Error("--set " + name + mistake);
      backtest.changes.push_back({rule, key, in_force.text(row), changed.text(row)});
      known = true;
    }
    if (!known)
      throw Error("no threshold \"" + name + "\"; reveal rules " + rules.front() + " lists those of the rule");
  }

  /// Each directory in a child of its own: of a thousand archived jobs, a damaged one must not end the rest.
  static BacktestedJob ask(const fs::path& directory, const AnalysisSettings& before, const AnalysisSettings& after,
                           const std::vector<std::string>& rules) {
    BacktestedJob job;
    try {
      const std::string answer = query_confined(
          directory, kBacktestLimits, [&] { return render_backtested(backtest_job(directory, before, after, rules)); });
      job = parse_backtested(answer);
    } catch (const Error& error) {
      job = {};
      job.failure = error.what();
    }
    job.directory = typed(directory.string());
    return job;
  }

  std::vector<std::string> words_, set_;
};

const RegisteredCommand kBacktestCommand{
    {.order = 74,
     .name = "backtest",
     .help = "Report what a rule with another threshold would have found in archived jobs",
     .examples = "  reveal backtest cpu.outsider --set min_cpu=0.5 reveal-4711 reveal-4712\n"
                 "  reveal backtest cpu.outsider mem.swap_activity reveal-4711 --set cpu.outsider.min_cpu=0.5 --json\n"
                 "The traces are analysed with the settings in force (or those of --config), and with the changed\n"
                 "ones. Nothing is written, and earlier runs are not compared.",
     .make = make_command<BacktestCommand>}};

}  // namespace
}  // namespace reveal
