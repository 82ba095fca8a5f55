#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <filesystem>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/fold.h"
#include "hdf5schema/basics/shell_word.h"
#include "hdf5schema/basics/text.h"
#include "postproc/commands/selected_runs.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/diagnose/rule_table.h"
#include "postproc/json/json_fields.h"
#include "postproc/words/ink.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"
#include "postproc/words/sanitize.h"
#include "postproc/words/times.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;
using Run = std::pair<fs::path, RunRecord>;

constexpr std::size_t kIndent = 25;
constexpr std::size_t kVerdictColumns = 17;  // "insufficient data"
constexpr std::size_t kLongestJob = 24;

std::string job_of(const RunRecord& run) {
  return printable(run.name.empty() ? run.command : run.name, kLongestJob);
}

Ink ink_of_verdict(const std::string& verdict) {
  if (verdict == name_of(VerdictStatus::finding)) return Ink::red;
  return verdict == name_of(VerdictStatus::healthy) ? Ink::green : Ink::yellow;
}

std::string title_of(const std::string& finding) {
  const RuleSpec* rule = find_rule(finding);
  return rule == nullptr ? printable(finding) : std::string(rule->title);
}

std::string as_text(const std::vector<Run>& runs, const TextStyle& style) {
  std::string text;
  for (const auto& [directory, run] : runs) {
    std::string verdict = printable(run.verdict);
    std::replace(verdict.begin(), verdict.end(), '_', ' ');
    text +=
        fmt::format("{}  {}  {}, {}, ran {}\n", date_and_time(run.begin_utc_ns),
                    painted(fmt::format("{:<{}}", verdict, kVerdictColumns), ink_of_verdict(run.verdict), style.colour),
                    job_of(run), counted(static_cast<double>(run.nodes), "node"), duration(run.seconds));
    std::vector<std::string> causes;
    for (const std::string& finding : run.findings) {
      std::string title = title_of(finding);
      if (std::find(causes.begin(), causes.end(), title) == causes.end()) causes.push_back(std::move(title));
    }
    if (!causes.empty()) text += folded("", listed(causes, 3, "; "), kIndent, static_cast<std::size_t>(style.width));
    text += fmt::format("{:{}}{}{}\n", "", kIndent, shell_word(printable(typed(directory.string()), 4096)),
                        is_there(directory) ? "" : " (removed)");
  }
  return text;
}

std::string as_json(const std::vector<Run>& runs) {
  Json rows = Json::array();
  for (const auto& [directory, run] : runs) {
    rows.push_back({{"directory", directory.string()},
                    {"exists", is_there(directory)},
                    {"begin_utc", iso_time(run.begin_utc_ns)},
                    {"seconds", run.seconds},
                    {"nodes", run.nodes},
                    {"name", run.name},
                    {"command", run.command},
                    {"verdict", run.verdict},
                    {"findings", run.findings}});
  }
  return json_text(Json{{"schema", "reveal.list/1"}, {"runs", std::move(rows)}}, 2) + "\n";
}

std::vector<std::string> verdicts() {
  std::vector<std::string> names;
  for (const VerdictStatus status :
       {VerdictStatus::healthy, VerdictStatus::notice, VerdictStatus::finding, VerdictStatus::insufficient_data}) {
    names.emplace_back(name_of(status));
  }
  return names;
}

class List final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions&) override {
    selection_.add_folder_option(app);
    app.add_option("--verdict", verdict_, "only runs with this verdict")
        ->type_name("VERDICT")
        ->check(CLI::IsMember(verdicts()));
    app.add_option("--finding", finding_, "only runs with a finding of this rule")->type_name("RULE");
    selection_.add_name_option(app);
    app.add_option("--limit", limit_, "at most this many runs, the newest ones (default 20)")
        ->type_name("N")
        ->check(CLI::Range(1, 100000));
  }

  int run(const CommonOptions& common) override {
    if (!finding_.empty() && find_rule(finding_) == nullptr) {
      throw Error("no rule \"" + finding_ + "\"; see reveal rules");
    }
    const std::vector<Run> runs =
        selected_runs(selection_, limit_, [this](const RunRecord& run) { return wanted(run); });
    if (runs.empty() && !common.json) {
      print(none_words() + "\n");
      return 0;
    }
    print(common.json ? as_json(runs) : as_text(runs, common.style()));
    return 0;
  }

 private:
  [[nodiscard]] bool wanted(const RunRecord& run) const {
    const bool found =
        finding_.empty() || std::find(run.findings.begin(), run.findings.end(), finding_) != run.findings.end();
    return found && (verdict_.empty() || run.verdict == verdict_);
  }

  [[nodiscard]] std::string none_words() const {
    if (!verdict_.empty() || !finding_.empty() || !selection_.name.empty()) return "no run matches these options";
    if (selection_.folder.empty()) {
      return "none of your runs has a report yet: reveal-run -- COMMAND and srun --reveal make one";
    }
    return "no job directory with a report in " + printable(typed(selection_.folder), 4096);
  }

  RunSelection selection_{.instead = "`reveal list DIR` lists the job directories in a folder"};
  std::string verdict_, finding_;
  std::size_t limit_ = 20;
};

const RegisteredCommand kListCommand{{.order = 22,
                                      .name = "list",
                                      .help = "List your runs, the newest first, with their verdicts",
                                      .examples = "  reveal list\n"
                                                  "  reveal list --verdict finding --limit 5\n"
                                                  "  reveal list . --json",
                                      .make = make_command<List>}};

}  // namespace
}  // namespace reveal
