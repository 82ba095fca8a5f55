#include <unistd.h>

#include <cstring>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "postproc/commands/comparison_status.h"
#include "postproc/commands/confined.h"
#include "postproc/commands/make_report.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/compare/timed_command.h"
#include "postproc/compare/trial.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

constexpr std::size_t kLargestScript = 1 << 20;
constexpr std::size_t kMostPauses = 3;

std::vector<std::string> own_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  return variables;
}

class Try final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions& common) override {
    add_config_option(app, common);
    app.add_option("--with", with_, "the line to try: variables, or words to put before the command")
        ->type_name("LINE")
        ->allow_extra_args(false);
    app.add_option("--from", from_, "your own report: try the first possible line of one of its findings")
        ->type_name("DIR")
        ->excludes("--with");
    app.add_option("--finding", finding_, "this finding of the report, by rule id (default: the first one)")
        ->type_name("ID")
        ->needs("--from");
    app.add_option("--runs", runs_,
                   "number of pairs of runs, without and with the line; an even number cancels a steady drift")
        ->type_name("N")
        ->check(CLI::Range(2, 1000))
        ->capture_default_str();
    app.add_option("--warmup", warmup_, "number of warm-up runs, which are not counted")
        ->type_name("N")
        ->check(CLI::Range(0, 100))
        ->capture_default_str();
    app.add_option("--script", script_, "print the line as a patch for this batch script; the file is not changed")
        ->type_name("FILE");
    app.add_flag("--show-output", show_output_, "print the output of the command (on standard error)");
    app.add_option("command", command_, "the command and its arguments, after --; preferably a short run")
        ->required()
        ->type_name("WORDS");
  }

  int run(const CommonOptions& common) override {
    if (with_.empty() && from_.empty()) {
      complain("give the line to try: --with 'LINE', or --from DIR for the line of a report; see reveal try --help");
      return kUsage;
    }
    const std::vector<std::string> lines = with_.empty() ? std::vector{line_of_report(common)} : with_;
    const TriedLine line = parsed(lines);
    std::string script;
    if (!script_.empty()) script = read_text_file(script_, kLargestScript, FileOf::anybody, Follow::yes);
    Trial trial{.line = as_typed(line), .command = as_typed(TriedLine{}, command_), .warmup = warmup_};
    announce(line, trial);
    const int stopped_by = make_runs(line, trial);
    conclude_trial(trial);
    if (trial.change == TimeChange::faster) advise(line, script, trial);
    print(common.json ? trial_as_json(trial) : trial_as_text(trial, common.style()));
    return stopped_by != 0 ? 128 + stopped_by : comparison_status(trial.change);
  }

 private:
  [[nodiscard]] TriedLine parsed(const std::vector<std::string>& lines) const {
    std::vector<TriedLine> all;
    all.reserve(lines.size());
    for (const std::string& line : lines) all.push_back(parse_tried_line(line, command_.front()));
    return joined(all);
  }

  [[nodiscard]] std::string line_of_report(const CommonOptions& common) const {
    const std::string directory = job_directory(from_);
    if (const auto foreign = foreign_part({directory})) {
      throw Error(foreign->path.string() + " belongs to " + foreign->owner +
                  ": reveal runs no line of it; give the line yourself: --with 'LINE'");
    }
    const Report report = stored_or_new_report(directory, common);
    const std::string& id = finding_.empty() ? report.verdict.primary : finding_;
    if (id.empty()) throw Error(directory + ": the report has no finding with a line to try");
    for (const Finding& finding : report.findings) {
      if (finding.id == id) return line_to_try(finding, command_.front());
    }
    throw Error(directory + ": no finding \"" + id + "\"; see reveal show " + typed(directory));
  }

  void announce(const TriedLine& line, const Trial& trial) const {
    complain("A: " + trial.command);
    complain("B: " + as_typed(line, command_));
    complain(counted(static_cast<double>(runs_), "pair") + " of runs in the order ABBA, after " +
             counted(static_cast<double>(warmup_), "run") + " to warm up");
  }

  /// The signal that ended it early, or 0. Throws Error where a run fails: then its time means nothing.
  int make_runs(const TriedLine& line, Trial& trial) {
    const ForegroundCommands foreground;
    for (std::size_t i = 0; i < warmup_; ++i) {
      const auto seconds = seconds_of_run(TriedLine{}, "run " + std::to_string(i + 1) + " to warm up");
      if (!seconds) return stopped(trial);
      complain("warm-up: " + duration(*seconds));
    }
    for (const TrialSide side : abba_order(runs_)) {
      const bool with = side == TrialSide::with;
      std::vector<double>& times = with ? trial.with : trial.without;
      const std::string name =
          "run " + std::to_string(times.size() + 1) + (with ? " with the line" : " without the line");
      const auto seconds = seconds_of_run(with ? line : TriedLine{}, name);
      if (!seconds) return stopped(trial);
      times.push_back(*seconds);
      complain(name + ": " + duration(*seconds));
    }
    return 0;
  }

  /// Nothing when a signal ended it.
  std::optional<double> seconds_of_run(const TriedLine& line, const std::string& name) {
    const std::vector<std::string> words = command_with(line, command_);
    for (std::size_t pauses = 0; ForegroundCommands::stopped_by() == 0; ++pauses) {
      if (pauses > kMostPauses) throw Error(name + " was paused each time: its run time is not known");
      const TimedRun run = ForegroundCommands::run(words, environment_with(line, own_environment()),
                                                   show_output_ ? OutputOf::standard_error : OutputOf::nowhere);
      warn_of_processes_left(run);
      if (ForegroundCommands::stopped_by() != 0) break;
      if (run.start_error != 0) throw system_error(words.front(), run.start_error);
      if (run.paused) {
        complain(name + " was paused; running it again");
        continue;
      }
      if (run.status != 0) {
        throw Error(name + " ended with exit status " + std::to_string(run.status) + " after " + duration(run.seconds) +
                    (show_output_ ? "" : "; use --show-output to see its output"));
      }
      return run.seconds;
    }
    return std::nullopt;
  }

  void warn_of_processes_left(const TimedRun& run) {
    if (!run.left_processes || std::exchange(warned_, true)) return;
    complain(ForegroundCommands::stopped_by() != 0
                 ? "processes of the command still run: they have not ended with it"
                 : "processes of the command still ran 10 s after its end: they may slow down the other runs");
  }

  static int stopped(Trial& trial) {
    const int signal = ForegroundCommands::stopped_by();
    trial.stopped = std::string("by ") + ::strsignal(signal);
    return signal;
  }

  void advise(const TriedLine& line, const std::string& script, Trial& trial) const {
    trial.keep = as_typed(line, command_);
    if (!script_.empty()) trial.patch = script_patch(script_, script, line, command_);
  }

  std::vector<std::string> with_, command_;
  std::string from_, finding_, script_;
  std::size_t runs_ = 6;
  std::size_t warmup_ = 1;
  bool show_output_ = false;
  bool warned_ = false;
};

const RegisteredCommand kTryCommand{
    {.order = 26,
     .name = "try",
     .help = "Test whether a line helps: run a command alternately with and without it",
     .examples =
         "  reveal try --with 'taskset -c 0' --runs 2 -- ./train.sh\n"
         "  reveal try --with 'export OMP_NUM_THREADS=4' --runs 3 --script job.sh -- ./solver input.nml\n"
         "  reveal try --from reveal-4711 -- ./train.sh --epochs 1\n"
         "reveal prints the line and runs it unchanged, without a shell: NAME=VALUE, export, unset, a program with\n"
         "arguments that runs the command, or options of the launcher that the command begins with. Several\n"
         "--with are tried together. --from takes the line from your own report, and only if the rule table\n"
         "contains it (reveal rules ID). A run that fails ends the trial. Ctrl-C ends the running command and\n"
         "the trial and prints the results so far; a second Ctrl-C kills a command that ignored the first.\n"
         "Exit status: 0 the time is shorter with it, or no difference is shown, 1 longer, 2 error, 3 not known (too\n"
         "few runs), 128+n ended by signal n.",
     .failure_status = kTrouble,
     .make = make_command<Try>}};

}  // namespace
}  // namespace reveal
