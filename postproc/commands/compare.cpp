#include <filesystem>
#include <sstream>

#include "hdf5schema/basics/error.h"
#include "postproc/commands/comparison_status.h"
#include "postproc/commands/make_report.h"
#include "postproc/commands/shared_options.h"
#include "postproc/commands/terminal.h"
#include "postproc/compare/comparison_page.h"
#include "postproc/compare/earlier_runs.h"

namespace reveal {
namespace {

class Compare final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions& common) override {
    add_config_option(app, common);
    app.add_option("BEFORE", one_before_, "directory of a run before the change, or several, separated by commas")
        ->type_name("DIR[,DIR...]");
    app.add_option("AFTER", one_after_, "directory of a run after the change, or several")->type_name("DIR[,DIR...]");
    app.add_option("--before", before_, "runs before the change; two or more runs on a side give a confidence interval")
        ->type_name("DIR");
    app.add_option("--after", after_, "runs after the change")->type_name("DIR");
  }

  int run(const CommonOptions& common) override {
    const bool one_each = before_.empty() && after_.empty() && !one_after_.empty();
    const bool several = !before_.empty() && !after_.empty() && one_before_.empty();
    if (!one_each && !several) {
      complain("give two directories, BEFORE AFTER, or --before DIR... --after DIR...; see reveal compare --help");
      return kUsage;
    }
    const std::vector<ComparedRun> before = reports_of(one_each ? runs_in(one_before_) : before_, common);
    const std::vector<ComparedRun> after = reports_of(one_each ? runs_in(one_after_) : after_, common);
    // Somebody else's file could name any history as its own.
    const std::vector<double> earlier =
        common.foreign ? std::vector<double>() : seconds_of_earlier_runs(before, after, state_place());
    const JobComparison comparison = compare_jobs(before, after, earlier);
    print(common.json ? comparison_as_json(comparison) : comparison_as_text(comparison, common.style()));
    return comparison_status(comparison.change, after);
  }

  [[nodiscard]] Inputs inputs() const override {
    Inputs inputs;
    for (const auto& some : {runs_in(one_before_), runs_in(one_after_), before_, after_}) {
      for (const std::string& directory : some) inputs.paths.emplace_back(job_directory(directory));
    }
    return inputs;
  }

 private:
  /// "A,A2": several runs, unless something is called so.
  static std::vector<std::string> runs_in(const std::string& given) {
    std::error_code error;
    if (std::filesystem::exists(given, error)) return {given};
    std::vector<std::string> runs;
    std::istringstream rest(given);
    for (std::string run; std::getline(rest, run, ',');) runs.push_back(run);
    return runs;
  }

  static std::vector<ComparedRun> reports_of(const std::vector<std::string>& directories, const CommonOptions& common) {
    std::vector<ComparedRun> runs;
    for (const std::string& given : directories) {
      const std::string directory = job_directory(given);
      runs.push_back({typed(directory), stored_or_new_report(directory, common)});
      runs.back().report.timeline.clear();  // the largest part, and nothing of it is compared
    }
    return runs;
  }

  std::string one_before_, one_after_;
  std::vector<std::string> before_, after_;
};

const RegisteredCommand kCompareCommand{
    {.order = 24,
     .name = "compare",
     .help = "Compare runs before and after a change: their time, and the causes that appeared and disappeared",
     .examples = "  reveal compare reveal-4721 reveal-4722\n"
                 "  reveal compare reveal-4721,reveal-4723 reveal-4722,reveal-4724\n"
                 "  reveal compare --before reveal-4721 reveal-4723 --after reveal-4722 reveal-4724\n"
                 "One run on each side shows the causes that appeared and disappeared. Only several runs on a side, "
                 "or\nearlier runs "
                 "of the same command in reveal's history, can show that the time differs by more than chance.\n"
                 "Exit status: 0 the time is shorter, or no difference is shown, 1 it is longer, 2 error, 3 it is not\n"
                 "known (too few runs, or a run after the change failed).",
     .failure_status = kTrouble,
     .make = make_command<Compare>}};

}  // namespace
}  // namespace reveal
