#include "postproc/live/watch.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <optional>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_pattern.h"
#include "hdf5schema/basics/own_program.h"
#include "postproc/commands/confined.h"
#include "postproc/commands/shared_options.h"
#include "postproc/live/slurm_watch.h"

namespace reveal {
namespace {

/// The plugin's default, where the traces of running Slurm jobs lie on each node.
constexpr const char* kSlurmSpool = "/var/spool/reveal";
constexpr int kInterrupted = 130;  // exit status as a shell reports it: the job goes on

std::atomic<bool> g_stop{false};
extern "C" void stop_watching(int) {
  g_stop = true;
}

/// Its memory and processor time are those of the job: it gives way to the job's own processes, and is the first to go
/// where the job's memory ends. https://man7.org/linux/man-pages/man5/proc_pid_oom_score_adj.5.html
void give_way_to_job() {
  constexpr int kNice = 10;
  ::setpriority(PRIO_PROCESS, 0, kNice);
  const Descriptor file(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (file) static_cast<void>(write_all(file.get(), "1000"));
}

/// On the nodes of a job the plugin names it.
std::string spool() {
  const std::string named = process_environment(kSpoolVariable);
  return named.starts_with('/') ? named : kSlurmSpool;
}

/// Its directory here or, on a node of the job, its spool.
std::string directory_of_running_job(const std::string& path) {
  const std::string directory = directory_of_number(path);
  const std::string traces = spool() + "/" + path;
  std::error_code error;
  const bool missing = directory == path && is_missing(path);
  return missing && is_job_number(path) && std::filesystem::is_directory(traces, error) ? traces : directory;
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
    app.add_flag("--step", in_step_)->group("");  // the watch of one node of a Slurm job, started through srun
    command->type_name("WORDS")->needs(on_alert);
    on_alert->needs(command);
  }

  int run(const CommonOptions& common) override {
    if (in_step_) return run_in_step(common);
    const std::string number = directory_;
    directory_ = directory_of_running_job(number);
    std::optional<QueuedJob> job;
    if (is_job_number(number) && is_missing(directory_)) job = find_job(number);
    if (!job) need_directory(directory_);
    if (common.foreign && forward_.any()) {
      throw Error(directory_ + " belongs to another user: its alerts are printed, and not forwarded");
    }
    const bool terminal = ::isatty(STDOUT_FILENO) == 1;
    const WatchForm form = common.json ? WatchForm::json : terminal ? WatchForm::page : WatchForm::lines;
    const WatchOptions options = this->options(common, form);
    end_by_signals();
    return status_of(job ? watch_slurm_job(*job, words_on_node(*job, common), options, stdout, g_stop)
                         : watch_job(options, stdout, g_stop));
  }

  [[nodiscard]] Inputs inputs() const override {
    const std::string directory = in_step_ ? spool() + "/" + directory_ : directory_of_running_job(directory_);
    return {.paths = {directory}, .followed = true};
  }

 private:
  /// On a node of the job, started by the watch on another machine: a job that is not recorded here is no error of the
  /// step.
  int run_in_step(const CommonOptions& common) {
    directory_ = spool() + "/" + directory_;
    end_by_signals();
    give_way_to_job();
    static_cast<void>(watch_job(options(common, WatchForm::step), stdout, g_stop));
    return 0;
  }

  static void end_by_signals() {
    struct sigaction action {};
    action.sa_handler = stop_watching;
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
  }

  static int status_of(WatchEnd end) {
    switch (end) {
      case WatchEnd::job_ended:
        return 0;
      case WatchEnd::nodes_lost:
        return kFailure;
      case WatchEnd::stopped:
        break;
    }
    return kInterrupted;
  }

  [[nodiscard]] WatchOptions options(const CommonOptions& common, WatchForm form) const {
    return {.directory = directory_,
            .form = form,
            .colour = common.style().colour,
            .share = budget_percent_ / 100,
            .settings = common.settings(),
            .forward = forward_};
  }

  /// The running job; nothing if its traces are on this machine, as those of an array's task are below its own number.
  std::optional<QueuedJob> find_job(const std::string& number) {
    QueuedJob job = find_running_job(number);
    const std::string directory = directory_of_running_job(job.id);
    if (is_missing(directory)) return job;
    if (const auto foreign = foreign_part({directory})) {
      throw Error(foreign->path.string() + " belongs to " + foreign->owner + "; to read it: reveal watch " + directory);
    }
    directory_ = directory;
    return std::nullopt;
  }

  [[nodiscard]] std::vector<std::string> words_on_node(const QueuedJob& job, const CommonOptions& common) const {
    std::vector<std::string> words = {
        own_path().string(), "watch", job.id, "--step", "--budget", fmt::format("{}", budget_percent_)};
    if (!common.config.empty()) {
      words.emplace_back("--config");
      words.push_back(std::filesystem::absolute(common.config).string());
    }
    return words;
  }

  std::string directory_;
  bool in_step_ = false;
  double budget_percent_ = 10;
  bool on_alert_ = false;
  ForwardOptions forward_;
};

const RegisteredCommand kWatchCommand{
    {.order = 28,
     .name = "watch",
     .help = "Show alerts of a running job until it ends; the report names the causes",
     .examples =
         "  reveal watch reveal-4711           a page that is drawn again every second\n"
         "  reveal watch reveal-4711 | tee a   one line per alert\n"
         "  reveal watch reveal-4711 --json    one JSON object per line\n"
         "  reveal watch 4711                  all nodes of a Slurm job of yours, from any machine with srun\n"
         "  reveal watch 4711_3                a task of an array; 4711+1: a component of a heterogeneous job\n"
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
