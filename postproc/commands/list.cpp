#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/fold.h"
#include "hdf5schema/basics/shell_word.h"
#include "hdf5schema/basics/text.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/diagnose/rule_table.h"
#include "postproc/history/run_index.h"
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

bool is_there(const fs::path& directory) {
  std::error_code error;
  return fs::exists(directory / kRunRecordFile, error);
}

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
  using ListJson = nlohmann::ordered_json;
  ListJson rows = ListJson::array();
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
  return ListJson{{"schema", "reveal.list/1"}, {"runs", std::move(rows)}}.dump(2, ' ', false,
                                                                               ListJson::error_handler_t::replace) +
         "\n";
}

class List final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions&) override {
    app.add_option("dir", folder_, "list the job directories in this folder, instead of all runs in reveal's history")
        ->type_name("DIR");
    app.add_option("--verdict", verdict_, "only runs with this verdict")
        ->type_name("VERDICT")
        ->check(CLI::IsMember({"healthy", "notice", "finding", "insufficient_data"}));
    app.add_option("--finding", finding_, "only runs with a finding of this rule")->type_name("RULE");
    app.add_option("--name", name_, "only runs of the job or program of this name")->type_name("NAME");
    app.add_option("--limit", limit_, "at most this many runs, the newest ones (default 20)")
        ->type_name("N")
        ->check(CLI::Range(1, 100000));
  }

  int run(const CommonOptions& common) override {
    if (!finding_.empty() && find_rule(finding_) == nullptr) {
      throw Error("no rule \"" + finding_ + "\"; see reveal rules");
    }
    const std::vector<Run> runs = folder_.empty() ? remembered() : in_folder();
    if (runs.empty() && !common.json) {
      const bool any = verdict_.empty() && finding_.empty() && name_.empty();
      print(any ? "none of your runs has a report yet: reveal-run -- COMMAND and srun --reveal make one\n"
                : "no run matches these options\n");
      return 0;
    }
    print(common.json ? as_json(runs) : as_text(runs, common.style()));
    return 0;
  }

 private:
  [[nodiscard]] bool wanted(const RunRecord& run) const {
    const bool found =
        finding_.empty() || std::find(run.findings.begin(), run.findings.end(), finding_) != run.findings.end();
    return found && (verdict_.empty() || run.verdict == verdict_) &&
           (name_.empty() || run.name == name_ || run.command == name_);
  }

  [[nodiscard]] std::vector<Run> remembered() const {
    constexpr std::string_view kInstead = "; `reveal list DIR` lists the job directories in a folder";
    const StatePlace state = state_place();
    if (state.directory.empty()) throw Error(state.why_not + std::string(kInstead));
    std::error_code error;
    if (!fs::exists(state.directory, error)) return {};  // before the first report
    try {
      return RunIndex(state.directory).newest(limit_, [this](const RunRecord& run) { return wanted(run); });
    } catch (const Error& failure) {
      throw Error(failure.what() + std::string(kInstead));
    }
  }

  [[nodiscard]] std::vector<Run> in_folder() const {
    std::error_code error;
    if (!fs::is_directory(folder_, error)) throw Error(folder_ + ": no such folder");
    std::vector<Run> runs = records_in(folder_);
    std::erase_if(runs, [this](const Run& run) { return !wanted(run.second); });
    std::sort(runs.begin(), runs.end(),
              [](const Run& one, const Run& other) { return one.second.begin_utc_ns > other.second.begin_utc_ns; });
    if (runs.size() > limit_) runs.resize(limit_);
    return runs;
  }

  std::string folder_, verdict_, finding_, name_;
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
