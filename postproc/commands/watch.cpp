#include "postproc/live/watch.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>

#include "hdf5schema/basics/error.h"
#include "postproc/commands/shared_options.h"

namespace reveal {
namespace {

/// The plugin's default, where the traces of running Slurm jobs lie on each node.
constexpr const char* kSlurmSpool = "/var/spool/reveal";
constexpr int kInterrupted = 130;  // exit status as a shell reports it: the job goes on

std::atomic<bool> g_stop{false};
extern "C" void stop_watching(int) {
  g_stop = true;
}

bool is_job_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

/// Its directory here or, on a node of the job, its spool.
std::string directory_of_running_job(const std::string& path) {
  const std::string directory = directory_of_number(path);
  const std::string spool = std::string(kSlurmSpool) + "/" + path;
  std::error_code error;
  const bool missing = directory == path && !std::filesystem::exists(path, error);
  return missing && is_job_number(path) && std::filesystem::is_directory(spool, error) ? spool : directory;
}

void need_directory_of_running_job(const std::string& directory) {
  std::error_code error;
  if (!is_job_number(directory) || std::filesystem::exists(directory, error)) return need_directory(directory);
  throw Error("no directory " + directory + " or reveal-" + directory +
              " here: while a Slurm job runs, its traces lie on its nodes; from here: srun --jobid=" + directory +
              " --overlap -N$(squeue -hj " + directory + " -o %D) reveal watch " + directory);
}

class Watch final : public Command {
 public:
  void declare(CLI::App& app, CommonOptions& common) override {
    add_config_option(app, common);
    app.add_option("dir", directory_, "directory of the job's traces, or the job's number")
        ->required()
        ->type_name("DIR");
    app.add_option("--budget", budget_percent_, "average cpu time of the detectors, in percent of one core")
        ->check(CLI::Range(0.1, 400.0) & finite())
        ->capture_default_str()
        ->type_name("PERCENT");
    app.add_option("--append", forward_.append, "append a line of JSON for each alert to this file")->type_name("FILE");
    app.add_option("--spool", forward_.spool, "write a file for each alert into this directory, the newest 1000")
        ->type_name("DIR");
    CLI::Option* on_alert = app.add_flag("--on-alert", on_alert_, "run the command after -- for each alert");
    CLI::Option* command = app.add_option("command", forward_.command,
                                          "with --on-alert: the command and its arguments; it runs without a shell, "
                                          "has the alert as JSON on standard input, and is ended after 10 s");
    command->type_name("WORDS")->needs(on_alert);
    on_alert->needs(command);
  }

  int run(const CommonOptions& common) override {
    directory_ = directory_of_running_job(directory_);
    need_directory_of_running_job(directory_);
    if (common.foreign && forward_.any()) {
      throw Error(directory_ + " belongs to another user: its alerts are printed, and not forwarded");
    }
    struct sigaction action {};
    action.sa_handler = stop_watching;
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
    const bool terminal = ::isatty(STDOUT_FILENO) == 1;
    const WatchOptions options{.directory = directory_,
                               .form = common.json ? WatchForm::json
                                       : terminal  ? WatchForm::page
                                                   : WatchForm::lines,
                               .colour = common.style().colour,
                               .share = budget_percent_ / 100,
                               .settings = common.settings(),
                               .forward = forward_};
    switch (watch_job(options, stdout, g_stop)) {
      case WatchEnd::job_ended:
        return 0;
      case WatchEnd::nodes_lost:
        return kFailure;
      case WatchEnd::stopped:
        break;
    }
    return kInterrupted;
  }

  [[nodiscard]] Inputs inputs() const override {
    return {.paths = {directory_of_running_job(directory_)}, .followed = true};
  }

 private:
  std::string directory_;
  double budget_percent_ = 10;
  bool on_alert_ = false;
  ForwardOptions forward_;
};

const RegisteredCommand kWatchCommand{
    {.order = 40,
     .name = "watch",
     .help = "Show alerts of a running job until it ends; the report names the causes",
     .examples =
         "  reveal watch reveal-4711           a page that is drawn again every second\n"
         "  reveal watch reveal-4711 | tee a   one line per alert\n"
         "  reveal watch reveal-4711 --json    one JSON object per line\n"
         "  reveal watch 4711                  a Slurm job, on one of its nodes, as its user\n"
         "  srun --jobid=4711 --overlap -N$(squeue -hj 4711 -o %D) reveal watch 4711    all its nodes\n"
         "  reveal watch reveal-4711 --append alerts.jsonl\n"
         "  reveal watch reveal-4711 --on-alert -- logger -t reveal\n"
         "If DIR is empty, the command waits for a run. Alerts that open, change or close, and hangs, go to the\n"
         "places of --append, --spool and --on-alert as JSON, the same as with --json. The file and the "
         "directory\nmust be yours, and no links.\n"
         "Exit status: 0 the job has ended, 1 its collectors are gone or DIR has no run, 130\n"
         "interrupted.",
     .make = make_command<Watch>}};

}  // namespace
}  // namespace reveal
