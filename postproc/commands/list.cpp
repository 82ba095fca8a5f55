#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <filesystem>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/fold.h"
#include "hdf5schema/basics/shell_word.h"
#include "hdf5schema/basics/text.h"
#include "postproc/analysis/runs_of_job.h"
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

/// "4710_3 train"
std::string job_of(const RunRecord& run) {
  const std::string number = printable(job_number(run), kLongestJob);
  const std::string name = printable(run.name.empty() ? run.command : run.name, kLongestJob);
  return number + (number.empty() || name.empty() ? "" : " ") + name;
}

/// ", FAILED, exit status 3"; "" where neither is known.
std::string ending_of(const RunRecord& run) {
  std::string text = run.state.empty() ? "" : ", " + printable(run.state, kLongestJob);
  if (run.exit_code && (run.state.empty() || *run.exit_code != 0)) {
    text += fmt::format(", exit status {}", *run.exit_code);
  }
  return text;
}

Ink ink_of_verdict(const std::string& verdict) {
  if (verdict == name_of(VerdictStatus::finding)) return Ink::red;
  return verdict == name_of(VerdictStatus::healthy) ? Ink::green : Ink::yellow;
}

std::string title_of(const std::string& finding) {
  const RuleSpec* rule = find_rule(finding);
  return rule == nullptr ? printable(finding) : std::string(rule->title);
}

/// A healthy run has observations: its record lists them, and they are the cause of nothing.
std::vector<std::string> causes_of(const RunRecord& run) {
  return run.verdict == name_of(VerdictStatus::healthy) ? std::vector<std::string>() : run.findings;
}

std::string as_text(const std::vector<Run>& runs, const TextStyle& style) {
  std::string text;
  for (const auto& [directory, run] : runs) {
    std::string verdict = printable(run.verdict);
    std::replace(verdict.begin(), verdict.end(), '_', ' ');
    text += fmt::format(
        "{}  {}  {}, {}, ran {}{}\n", date_and_time(run.begin_utc_ns),
        painted(fmt::format("{:<{}}", verdict, kVerdictColumns), ink_of_verdict(run.verdict), style.colour),
        job_of(run), counted(static_cast<double>(run.nodes), "node"), duration(run.seconds), ending_of(run));
    std::vector<std::string> causes;
    for (const std::string& finding : causes_of(run)) {
      std::string title = title_of(finding);
      if (std::find(causes.begin(), causes.end(), title) == causes.end()) causes.push_back(std::move(title));
    }
    if (!causes.empty()) text += folded("", listed(causes, 3, "; "), kIndent, static_cast<std::size_t>(style.width));
    text += fmt::format("{:{}}{}{}\n", "", kIndent, shell_word(printable(typed(directory.string()), 4096)),
                        is_there(directory) ? "" : " (removed)");
  }
  return text;
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

std::string as_json(const std::vector<Run>& runs) {
  Json rows = Json::array();
  for (const auto& [directory, run] : runs) {
    rows.push_back({{"directory", directory.string()},
                    {"exists", is_there(directory)},
                    {"begin_utc", iso_time(run.begin_utc_ns)},
                    {"seconds", run.seconds},
                    {"job", text_or_null(run.job)},
                    {"array", text_or_null(run.array)},
                    {"het", text_or_null(run.het)},
                    {"state", text_or_null(run.state)},
                    {"exit_status", run.exit_code ? Json(*run.exit_code) : Json()},
                    {"nodes", run.nodes},
                    {"name", run.name},
                    {"command", run.command},
                    {"verdict", run.verdict},
                    {"findings", run.findings}});
  }
  return json_text(Json{{"schema", "reveal.list/1"}, {"runs", std::move(rows)}}, 2) + "\n";
}

/// "2026-11-20" (UTC), or an age such as "7d".
std::optional<std::int64_t> begin_of_time(const std::string& text) {
  if (const auto age = parse_age(text)) return utc_now_ns() - *age;
  return parse_iso_time(text + "T00:00:00Z");
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
    app.add_option("--job", job_, "only the job of this number, or the tasks of this array: 4711, 4710_3")
        ->type_name("NUMBER")
        ->check([](const std::string& text) {
          return is_number_of_job(text) ? std::string() : "\"" + text + "\" is no number of a job";
        });
    app.add_option("--state", state_, "only runs with this state of the batch system: FAILED, TIMEOUT")
        ->type_name("STATE");
    app.add_option("--since", since_, "only runs that began since this date, or not longer ago: 2026-11-20, 7d, 12h")
        ->type_name("TIME")
        ->check([](const std::string& text) {
          return begin_of_time(text) ? std::string() : "\"" + text + "\" is no time such as 2026-11-20, 7d or 12h";
        });
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
    return found && (verdict_.empty() || run.verdict == verdict_) && (job_.empty() || is_of_job(run, job_)) &&
           (state_.empty() || run.state == state_) &&
           (since_.empty() || run.begin_utc_ns >= begin_of_time(since_).value_or(0));
  }

  [[nodiscard]] std::string none_words() const {
    const bool any = verdict_.empty() && finding_.empty() && job_.empty() && state_.empty() && since_.empty();
    if (!any || !selection_.name.empty()) return "no run matches these options";
    if (selection_.folder.empty()) {
      return "none of your runs has a report yet: reveal-run -- COMMAND and srun --reveal make one";
    }
    return "no job directory with a report in " + printable(typed(selection_.folder), 4096);
  }

  RunSelection selection_{.instead = "`reveal list DIR` lists the job directories in a folder"};
  std::string verdict_, finding_, job_, state_, since_;
  std::size_t limit_ = 20;
};

const RegisteredCommand kListCommand{{.order = 22,
                                      .name = "list",
                                      .help = "List your runs, the newest first, with their verdicts",
                                      .examples = "  reveal list\n"
                                                  "  reveal list --verdict finding --limit 5\n"
                                                  "  reveal list --job 4711\n"
                                                  "  reveal list --state TIMEOUT --since 7d\n"
                                                  "  reveal list . --json",
                                      .make = make_command<List>}};

}  // namespace
}  // namespace reveal
