#include "postproc/history/feedback.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <filesystem>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/fold.h"
#include "hdf5schema/basics/shell_word.h"
#include "postproc/commands/confined.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/diagnose/rule.h"
#include "postproc/history/run_index.h"
#include "postproc/json/json_fields.h"
#include "postproc/words/lists.h"
#include "postproc/words/sanitize.h"
#include "postproc/words/times.h"

namespace reveal {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestWords = 200;
constexpr std::string_view kUsualWords = "this was not a problem";

fs::path state_directory() {
  const StatePlace state = state_place();
  if (state.directory.empty()) throw Error(state.why_not);
  return state.directory;
}

std::string feedback_as_json(std::span<const Feedback> all) {
  Json rows = Json::array();
  for (const Feedback& each : all) {
    rows.push_back({{"job", each.job},
                    {"rule", each.rule},
                    {"fingerprint", each.fingerprint.empty() ? Json() : Json(each.fingerprint)},
                    {"words", each.words},
                    {"said", iso_time(each.said_utc_ns)}});
  }
  return json_text(Json{{"schema", "reveal.feedback/1"}, {"feedback", std::move(rows)}}, 2) + "\n";
}

std::string feedback_as_text(std::span<const Feedback> all, const TextStyle& style) {
  std::string text;
  for (const Feedback& each : all) {
    const std::string only = each.fingerprint.empty() ? "" : " (" + each.fingerprint + " only)";
    text += folded(date_and_time(each.said_utc_ns),
                   fmt::format("{}, {}{}: {}", printable(each.job, 40), each.rule, only, printable(each.words)), 18,
                   static_cast<std::size_t>(style.width));
  }
  return text;
}

class FeedbackCommand final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions&) override {
    CLI::Option* directory =
        app.add_option("dir", directory_, "job directory, or the number of a job; without it, list your feedback")
            ->type_name("DIR");
    CLI::Option* finding =
        app.add_option("finding", finding_,
                       "a rule of its report, or the fingerprint of one finding (reveal show --json)")
            ->type_name("RULE")
            ->needs(directory);
    CLI::Option* words = app.add_option("words", words_, "the reason, which the next reports show");
    words->type_name("WORDS")->needs(finding);
    app.add_flag("--take-back", take_back_, "delete the feedback: report the finding again")
        ->needs(finding)
        ->excludes(words);
  }

  int run(const CommonOptions& common) override {
    const fs::path state = state_directory();
    if (directory_.empty()) return list(state, common);
    if (finding_.empty())
      throw Error("which finding? give its rule: reveal feedback " + shell_word(directory_) + " RULE");
    if (const std::string there = unwritable_part(state); !there.empty()) {
      throw Error(there + " cannot be written: feedback cannot be stored; use mute in reveal.conf instead");
    }
    const fs::path directory = job_directory(directory_);
    if (const auto foreign = foreign_part({directory})) {
      throw Error(foreign->path.string() + " belongs to " + foreign->owner + ": feedback is about your own jobs");
    }
    Feedback said = about(directory);
    if (take_back_) return taken_back(state, said, common);
    said.words = words_.empty() ? std::string(kUsualWords) : printable(words_, kLongestWords);
    said.said_utc_ns = utc_now_ns();
    add_feedback(state, said);
    if (common.json) {
      print(feedback_as_json(std::span(&said, 1)));
    } else {
      const std::string again =
          fmt::format("reveal feedback {} {} --take-back", shell_word(typed(directory.string())), shell_word(finding_));
      print(fmt::format("noted: reports of {} show {} as an observation from now on; to undo: {}\n",
                        printable(said.job, 40), said.rule, again));
    }
    return 0;
  }

 private:
  static int list(const fs::path& state, const CommonOptions& common) {
    const std::vector<Feedback> all = read_feedback(state);
    if (common.json) {
      print(feedback_as_json(all));
    } else {
      print(all.empty() ? "you said nothing about any finding yet: reveal feedback DIR RULE\n"
                        : feedback_as_text(all, common.style()));
    }
    return 0;
  }

  static int taken_back(const fs::path& state, const Feedback& said, const CommonOptions& common) {
    if (!take_back_feedback(state, said)) throw Error("there is no feedback on this finding; see reveal feedback");
    if (common.json) {
      print(feedback_as_json({}));
    } else {
      print(fmt::format("taken back: the next report of {} judges {} again\n", printable(said.job, 40), said.rule));
    }
    return 0;
  }

  /// The run, and the finding of its report that is meant.
  [[nodiscard]] Feedback about(const fs::path& directory) const {
    RunRecord run;
    try {
      run = parse_run(read_text_file(directory / kRunRecordFile, kLargestRunRecord, FileOf::ours));
    } catch (const Error& error) {
      throw Error(
          fmt::format("{}; reveal cannot recognise this job again, so use mute in reveal.conf instead", error.what()));
    }
    Feedback said{.key = run.key, .job = run.name, .rule = "", .fingerprint = "", .words = ""};
    const Report report = parse_report(read_text_file(directory / "report.json", kLargestReport, FileOf::ours));
    const RuleSpec* rule = find_rule(finding_);
    std::vector<std::string> known;
    for (const Finding& finding : report.findings) {
      known.push_back(finding.id);
      const bool one = finding.fingerprint == finding_;
      if (!one && (rule == nullptr || finding.id != rule->id)) continue;
      said.rule = finding.id;
      said.fingerprint = one ? finding.fingerprint : "";
      return said;
    }
    if (take_back_ && rule != nullptr) {
      said.rule = rule->id;
      return said;
    }
    throw Error(fmt::format("the report has no finding \"{}\"{}", printable(finding_, 60),
                            known.empty() ? "" : "; it has " + listed(known)));
  }

  std::string directory_, finding_, words_;
  bool take_back_ = false;
};

const RegisteredCommand kFeedbackCommand{
    {.order = 24,
     .name = "feedback",
     .help = "Record that a finding was not a problem: the next reports of this job show it as an observation",
     .examples =
         "  reveal feedback reveal-4711 cpu.outsider 'my own download'\n"
         "  reveal feedback reveal-4711 cpu.outsider --take-back\n"
         "  reveal feedback                  lists your feedback\n"
         "Applies to later runs of the same program with the same number of nodes and ranks, and to reveal report of\n"
         "this one. Broken hardware stays critical. The feedback is stored in ~/.local/state/reveal and shown in your\n"
         "reports.\n",
     .make = make_command<FeedbackCommand>}};

}  // namespace
}  // namespace reveal
