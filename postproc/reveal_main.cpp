// reveal: explains what slowed a job down, from the traces its nodes left.
#include <pwd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/host_name.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/basics/wall_clock.h"
#include "hdf5schema/version.h"
#include "postproc/deliver/job_end.h"
#include "postproc/detect/pipeline.h"
#include "postproc/detect/prune_jobs.h"
#include "postproc/diagnose/collector_query.h"
#include "postproc/diagnose/rule_table.h"
#include "postproc/live/watch.h"
#include "postproc/mail/mail_job.h"
#include "postproc/mail/mail_quota.h"
#include "postproc/merge/job_file.h"
#include "postproc/merge/publish.h"
#include "postproc/report/job_report.h"
#include "postproc/score/score.h"

namespace {

using namespace reveal;
namespace fs = std::filesystem;

constexpr int kFailure = 1;
constexpr int kUsage = 2;
constexpr std::size_t kLargestReport = 256 << 20;

void complain(const std::string& text) {
  std::string line = text;
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';  // one line, and no escape sequences out of file names
  }
  std::fprintf(stderr, "reveal: %s\n", line.c_str());
}

/// One line on the terminal for work that takes longer than two seconds; silent elsewhere.
class Progress {
 public:
  Progress() {
    if (::isatty(STDERR_FILENO) == 1) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  ~Progress() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    thread_.join();
    if (shown_) std::fprintf(stderr, "\r\033[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void say(std::string text) {
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
  }

 private:
  void run(const std::stop_token& stop) {
    const auto begin = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    std::condition_variable_any changed;
    auto wait = std::chrono::milliseconds(2000);
    while (!changed.wait_for(lock, stop, wait, [] { return false; }) && !stop.stop_requested()) {
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      std::fprintf(stderr, "\r\033[Kreveal: %s (%.0f s)", text_.c_str(), seconds);
      shown_ = true;
      wait = std::chrono::milliseconds(500);
    }
  }

  std::mutex mutex_;
  std::string text_ = "working";
  bool shown_ = false;
  std::jthread thread_;
};

struct Common {
  bool json = false;
  bool no_color = false;
  std::string config;  // instead of the site's and the user's

  [[nodiscard]] TextStyle style() const {
    const char* plain = std::getenv("NO_COLOR");
    return {.colour = !no_color && (plain == nullptr || *plain == '\0') && ::isatty(STDOUT_FILENO) == 1};
  }

  [[nodiscard]] AnalysisSettings settings() const {
    if (!config.empty()) {
      if (!fs::exists(config)) throw Error(config + ": No such file or directory");
      return load_analysis_settings({config});
    }
    std::vector<fs::path> files{"/etc/reveal/reveal.conf"};
    const char* base = std::getenv("XDG_CONFIG_HOME");
    const char* home = std::getenv("HOME");
    if (base != nullptr && *base != '\0') {
      files.push_back(fs::path(base) / "reveal/reveal.conf");
    } else if (home != nullptr && *home != '\0') {
      files.push_back(fs::path(home) / ".config/reveal/reveal.conf");
    }
    return load_analysis_settings(files);
  }
};

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) != 0) throw Error("standard output: cannot be written");
}

void need_directory(const std::string& directory) {
  std::error_code error;
  const auto status = fs::status(directory, error);
  if (!fs::exists(status)) throw Error(directory + ": No such file or directory");
  if (!fs::is_directory(status)) throw Error(directory + ": not a directory; give the job's directory, reveal-JOBID/");
}

struct ReportCommand {
  std::string directory;
  std::string pipeline;
  std::vector<std::string> expect;
  std::optional<int> exit_code;
  bool fresh = false;
  bool no_history = false;
  std::size_t threads = 0;
};

Report make_report(const ReportCommand& command, const Common& common) {
  need_directory(command.directory);
  ReportOptions options;
  options.settings = common.settings();
  if (!command.pipeline.empty()) options.settings.pipeline = find_pipeline(command.pipeline).name;
  options.expected_nodes = command.expect;
  options.reuse_summaries = !command.fresh;
  options.exit_code = command.exit_code;
  options.threads = command.threads;
  options.history = history_options(options.settings);
  if (command.no_history) options.history = {.why_not = "--no-history was given"};
  options.now_utc_ns = utc_now_ns();
  std::vector<InputProblem> problems;
  Report report;
  {
    Progress progress;
    options.progress = [&progress](const std::string& node, std::size_t index, std::size_t count) {
      progress.say("analysing " + node + ", " + std::to_string(index + 1) + " of " + std::to_string(count));
    };
    report = build_report(command.directory, options, problems);
  }
  for (const InputProblem& problem : problems) complain(problem.text);
  return report;
}

int run_report(const ReportCommand& command, const Common& common) {
  const Report report = make_report(command, common);
  // What was found is worth more than the files: it is printed even if the directory cannot be written.
  std::string failure;
  try {
    write_report(command.directory, report);
  } catch (const Error& error) {
    failure = error.what();
  }
  print(common.json ? render_json(report) : render_text(report, common.style()));
  if (failure.empty()) return 0;
  complain(failure);
  return kFailure;
}

struct ShowCommand {
  std::string directory;
  std::string node;
  std::string finding;
};

template <typename Item, typename Names>
void keep_node(std::vector<Item>& items, const std::string& node, Names nodes_of) {
  std::erase_if(items, [&](const Item& item) {
    const std::vector<std::string> nodes = nodes_of(item);
    return std::find(nodes.begin(), nodes.end(), node) == nodes.end();
  });
}

/// What the report says about one node. The verdict stays the job's.
void narrow_to_node(Report& report, const std::string& node) {
  if (std::find(report.job.nodes.begin(), report.job.nodes.end(), node) == report.job.nodes.end()) {
    const auto near = nearest(node, report.job.nodes);
    throw Error("no node \"" + node + "\" in this job" + (near ? "; did you mean \"" + *near + "\"?" : ""));
  }
  const auto listed = [](const auto& item) { return item.nodes; };
  const auto single = [](const auto& item) { return std::vector<std::string>{item.node}; };
  keep_node(report.findings, node, listed);
  keep_node(report.coverage, node, listed);
  keep_node(report.episodes, node, single);
  keep_node(report.overhead, node, single);
  keep_node(report.timeline, node, single);
}

void narrow_to_finding(Report& report, const std::string& id) {
  std::vector<std::string> known;
  for (const Finding& finding : report.findings) known.push_back(finding.id);
  std::erase_if(report.findings, [&](const Finding& finding) { return finding.id != id && finding.fingerprint != id; });
  if (!report.findings.empty()) return;
  const auto near = nearest(id, known);
  throw Error("no finding \"" + id + "\" in this report" + (near ? "; did you mean \"" + *near + "\"?" : ""));
}

int run_show(const ShowCommand& command, const Common& common) {
  need_directory(command.directory);
  const fs::path stored = fs::path(command.directory) / "report.json";
  Report report;
  bool fresh = false;
  // A report that was moved away from its traces can still be shown.
  try {
    fresh = report_is_fresh(command.directory);
  } catch (const Error&) {
    fresh = fs::exists(stored);
  }
  if (fresh) {
    try {
      report = parse_report(read_text_file(stored, kLargestReport));
    } catch (const Error&) {
      fresh = false;  // damaged, or of another version: made again from the traces
    }
  }
  if (!fresh) {
    report = make_report({.directory = command.directory}, common);
    try {
      write_report(command.directory, report);
    } catch (const Error& error) {
      complain(error.what());  // somebody else's directory: showing it is what was asked for
    }
  }
  if (!command.node.empty()) narrow_to_node(report, command.node);
  if (!command.finding.empty()) narrow_to_finding(report, command.finding);
  print(common.json ? render_json(report) : render_text(report, common.style()));
  return 0;
}

int run_merge(const std::string& directory, MergeForm form, const Common& common) {
  need_directory(directory);
  const MergedJob job = merge_job_directory(directory, form);
  for (const std::string& problem : job.problems) complain(problem);
  if (common.json) {
    const nlohmann::ordered_json json{{"file", job.path.string()}, {"nodes", job.nodes}, {"problems", job.problems}};
    print(json.dump(2) + "\n");
  } else {
    print(job.path.string() + ": " + std::to_string(job.nodes.size()) + (job.nodes.size() == 1 ? " node" : " nodes") +
          "\n");
  }
  return 0;
}

int print_score(const ScoreOptions& options, const Common& common) {
  const ScoreResult result = run_score(options);
  if (!common.json) return 0;
  nlohmann::ordered_json json{{"windows", result.windows},
                              {"findings", result.findings},
                              {"notices", result.notices},
                              {"out", options.windows_csv.string()}};
  if (!options.episodes_csv.empty()) json["episodes"] = options.episodes_csv.string();
  print(json.dump(2) + "\n");
  return 0;
}

int run_prune(const PruneOptions& options, const Common& common) {
  for (const fs::path& directory : options.directories) need_directory(directory.string());
  const PruneResult result = prune_jobs(options);
  const RetainedMetrics::Count& channels = result.channels;
  if (common.json) {
    const nlohmann::ordered_json json{{"out", options.out.string()},
                                      {"lines", result.lines},
                                      {"channels_moved", channels.moved},
                                      {"channels_retained", channels.retained},
                                      {"channels_unmoved", channels.unmoved}};
    print(json.dump(2) + "\n");
  } else {
    print(options.out.string() + ": " + std::to_string(channels.retained) + " of " + std::to_string(channels.moved) +
          " channels that moved are kept; " + std::to_string(channels.unmoved) + " never moved\n");
  }
  return 0;
}

int run_probes(const Common& common) {
  const std::string answer = ask_collector({"--list-probes", "--json"});
  print(common.json ? answer : probes_as_text(answer));
  return 0;
}

int run_doctor(const Common& common) {
  const std::string answer = ask_collector({"--check", "--json"});
  print(common.json ? answer : check_as_text(answer));
  return 0;
}

int run_rules(const Common& common) {
  const AnalysisSettings settings = common.settings();
  print(common.json ? rules_as_json(settings) : rules_as_text(settings));
  return 0;
}

struct WatchCommand {
  std::string directory;
  double budget_percent = 10;
};

std::atomic<bool> g_stop{false};
extern "C" void stop_watching(int) {
  g_stop = true;
}

int run_watch(const WatchCommand& command, const Common& common) {
  constexpr int kInterrupted = 130;  // as a shell says it: the job goes on
  need_directory(command.directory);
  struct sigaction action {};
  action.sa_handler = stop_watching;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  const WatchOptions options{.directory = command.directory,
                             .form = common.json ? WatchForm::json
                                     : terminal  ? WatchForm::page
                                                 : WatchForm::lines,
                             .colour = common.style().colour,
                             .share = command.budget_percent / 100};
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

struct MailCommand {
  MailJob job;
  std::string directory;
  bool verbose = false;
};

/// The site's file only: a user's own would say who gets mail in the site's name.
MailSettings mail_settings(const Common& common) {
  constexpr std::size_t kLargestConfig = 1 << 20;
  const fs::path file = common.config.empty() ? "/etc/reveal/reveal.conf" : common.config;
  std::error_code error;
  if (common.config.empty() && !fs::exists(file, error)) return {};
  std::vector<std::string> problems;
  MailSettings settings = parse_mail_settings(read_text_file(file, kLargestConfig), file.string(), problems);
  for (const std::string& problem : problems) complain(problem);
  return settings;
}

int run_mail(MailCommand& command, const Common& common) {
  // Root would read what the job's user wrote, and start a program for them.
  if (::geteuid() == 0) throw Error("mail is not sent as root; run this as the job's user or as a mailer of its own");
  MailJob& job = command.job;
  job.directory = command.directory;
  job.array = job.array.substr(0, job.array.find('_'));
  const passwd* user = ::getpwuid(::geteuid());
  if (job.request.user.empty() && user != nullptr) job.request.user = user->pw_name;
  job.host = host_name();
  job.now_utc_ns = utc_now_ns();
  const MailOutcome outcome = mail_job(job, mail_settings(common));
  if (common.json) {
    print(outcome_as_json(outcome));
  } else if (command.verbose || job.dry_run || ::isatty(STDOUT_FILENO) == 1) {
    print(outcome_as_text(outcome));
  }
  for (const std::string& problem : outcome.problems) complain(problem);
  if (const std::string failure = failure_line(outcome); !failure.empty()) complain(failure);
  return outcome.failed ? kFailure : 0;
}

std::string mail_examples() {
  std::string text =
      "  reveal mail reveal-4711 --dry-run              what would be sent to whom\n"
      "  reveal mail reveal-4711 --to ada@example.org   also when nothing was found\n"
      "Nothing is sent unless the section [mail] of /etc/reveal/reveal.conf says so. Its keys:\n";
  for (const MailSettingHelp& setting : mail_setting_help()) {
    text += "  " + std::string(setting.key) + " = " + std::string(setting.fallback) + "\n      " +
            std::string(setting.help) + "\n";
  }
  return text;
}

/// CLI11 says that something was not expected; this says what was probably meant.
int usage_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments) {
  const std::vector<const CLI::App*> all = app.get_subcommands({});
  std::vector<std::string> commands;
  commands.reserve(all.size());
  for (const CLI::App* command : all) commands.push_back(command->get_name());
  const CLI::App* chosen = nullptr;
  for (const std::string& word : arguments) {
    if (!word.starts_with("-")) {
      const auto known = std::find(commands.begin(), commands.end(), word);
      if (known == commands.end()) {
        const auto near = nearest(word, commands);
        complain("unknown command \"" + word + "\"" +
                 (near ? "; did you mean \"" + *near + "\"?" : "; see reveal --help"));
        return kUsage;
      }
      chosen = all[static_cast<std::size_t>(known - commands.begin())];
      break;
    }
  }
  std::vector<std::string> options;
  for (const CLI::Option* option : (chosen != nullptr ? chosen : &app)->get_options()) {
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  }
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    const std::string word = argument.substr(0, argument.find('='));
    if (!word.starts_with("--") || std::find(options.begin(), options.end(), word) != options.end()) continue;
    const auto near = nearest(word, options);
    complain("unknown option \"" + word + "\"" + (near ? "; did you mean \"" + *near + "\"?" : ""));
    return kUsage;
  }
  complain(std::string(error.what()) + "; see reveal " + (chosen != nullptr ? chosen->get_name() + " " : "") +
           "--help");
  return kUsage;
}

/// For CLI11: what is wrong with the name, or "".
/// A range lets "nan" through.
const CLI::Validator& finite() {
  static const CLI::Validator validator(
      [](const std::string& value) {
        return std::isfinite(std::strtod(value.c_str(), nullptr)) ? std::string() : "not a number: " + value;
      },
      "");
  return validator;
}

std::string known_pipeline(const std::string& name) {
  try {
    static_cast<void>(find_pipeline(name));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

int run(int argc, char** argv) {
  CLI::App app{"Finds what silently slowed a job down, from the traces that reveal-run or srun --reveal recorded."};
  app.name("reveal");
  app.set_version_flag("--version", std::string("reveal ") + REVEAL_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  reveal report reveal-4711          analyse a job, write report.json, .txt and .html, print the text\n"
      "  reveal show reveal-4711 --json     the report again, as data\n"
      "  reveal watch reveal-4711           follow it while it runs\n"
      "  reveal doctor                      what can be measured on this node, and what is missing\n"
      "Exit status: 0 done, 1 failed, 2 wrong usage.");

  Common common;
  app.add_flag("--json", common.json, "print JSON instead of text");
  app.add_flag("--no-color", common.no_color, "no colours on a terminal (as does NO_COLOR)");
  const auto add = [&](const char* name, const char* help, const char* examples) {
    CLI::App* command = app.add_subcommand(name, help);
    command->add_flag("--json", common.json, "print JSON instead of text");
    command->add_flag("--no-color", common.no_color, "no colours on a terminal (as does NO_COLOR)");
    command->footer(std::string("Examples:\n") + examples);
    return command;
  };
  const auto with_config = [&](CLI::App* command) {
    command->add_option("--config", common.config, "read this reveal.conf instead of the site's and yours")
        ->type_name("FILE");
    return command;
  };

  ReportCommand report;
  CLI::App* report_command = with_config(add("report", "Merge, analyse, write and print the report of a job",
                                             "  reveal report reveal-4711\n"
                                             "  reveal report out --pipeline paper --json\n"
                                             "  reveal report out --expect n01,n02,n03"));
  report_command->add_option("dir", report.directory, "the job's directory")->required()->type_name("DIR");
  report_command->add_option("--pipeline", report.pipeline, "detectors: reveal (default), paper or local")
      ->type_name("NAME")
      ->check(known_pipeline);
  report_command->add_option("--expect", report.expect, "nodes that must have delivered a trace")
      ->delimiter(',')
      ->type_name("NODES");
  report_command->add_option("--exit-code", report.exit_code, "what the job ended with, for the report")
      ->check(CLI::Range(0, 255))
      ->type_name("N");
  report_command->add_flag("--no-history", report.no_history, "do not compare with earlier runs, nor teach later ones");
  report_command->add_option("--threads", report.threads, "nodes analysed side by side (default: one a cpu, at most 3)")
      ->type_name("N");
  report_command->add_flag("--fresh", report.fresh, "do not reuse the nodes' summaries");

  ShowCommand show;
  CLI::App* show_command = with_config(add("show", "Print a report, building it first if it is missing or stale",
                                           "  reveal show reveal-4711\n"
                                           "  reveal show reveal-4711 --node n03 --finding cpu.outsider"));
  show_command->add_option("dir", show.directory, "the job's directory")->required()->type_name("DIR");
  show_command->add_option("--node", show.node, "only what concerns this node")->type_name("NODE");
  show_command->add_option("--finding", show.finding, "only this finding, by rule id or fingerprint")->type_name("ID");

  std::string merge_directory;
  bool pack = false;
  CLI::App* merge_command = add("merge", "One job.h5 from the traces of all nodes",
                                "  reveal merge reveal-4711           external links: small, stays in the directory\n"
                                "  reveal merge reveal-4711 --pack    one self-contained file");
  merge_command->add_option("dir", merge_directory, "the job's directory")->required()->type_name("DIR");
  merge_command->add_flag("--pack", pack, "copy the traces into it");

  WatchCommand watch;
  CLI::App* watch_command = add("watch", "Follow a running job: alerts as they come, until it ends",
                                "  reveal watch reveal-4711           a page that is drawn again every second\n"
                                "  reveal watch reveal-4711 | tee a   one line per alert\n"
                                "  reveal watch reveal-4711 --json    one JSON object per line\n"
                                "  reveal watch /var/spool/reveal/4711    on a node of a Slurm job\n"
                                "Exit status: 0 the job has ended, 1 its collectors are gone, 130 interrupted.");
  watch_command->add_option("dir", watch.directory, "where the job's traces are written")->required()->type_name("DIR");
  watch_command->add_option("--budget", watch.budget_percent, "percent of one core for the detectors, on average")
      ->check(CLI::Range(0.1, 400.0) & finite())
      ->capture_default_str()
      ->type_name("PERCENT");

  ScoreOptions score;
  CLI::App* score_command = add("score", "Run the detectors on any multivariate series",
                                "  reveal score series.h5 --out scores.csv --episodes episodes.csv\n"
                                "  reveal score series.h5 --out scores.csv --pipeline paper --window 30 --stride 10");
  score_command->add_option("file", score.input, "HDF5 with values [time, channel] and channels")
      ->required()
      ->type_name("FILE.h5");
  score_command->add_option("--window", score.window, "samples per window")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  score_command->add_option("--stride", score.stride, "samples between windows")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  score_command->add_option("--out", score.windows_csv, "one line per window")->required()->type_name("CSV");
  score_command->add_option("--episodes", score.episodes_csv, "one line per episode")->type_name("CSV");
  score_command->add_option("--pipeline", score.pipeline, "detectors: reveal, paper or local")
      ->capture_default_str()
      ->type_name("NAME")
      ->check(known_pipeline);
  score_command->add_option("--seed", score.seed, "of what is random")->capture_default_str();

  PruneOptions prune_options;
  bool only_moving = false;
  CLI::App* prune_command = add("prune", "Write which metrics to record next time, without those that move together",
                                "  reveal prune reveal-4711 reveal-4712 --out selected.metrics\n"
                                "  reveal-collect --metrics selected.metrics --output n03.h5");
  prune_command->add_option("dirs", prune_options.directories, "job directories; kept is what any of them needs")
      ->required()
      ->type_name("DIR");
  prune_command->add_option("--out", prune_options.out, "for reveal-collect --metrics")->required()->type_name("FILE");
  prune_command->add_option("--threshold", prune_options.threshold, "mean |r| beyond which one channel is enough")
      ->check(CLI::Range(0.0, 1.0) & finite())
      ->capture_default_str();
  prune_command->add_flag("--only-moving", only_moving,
                          "leave out what never moved, too: smaller, and blind to errors that have not happened yet");

  MailCommand mail;
  CLI::App* mail_command =
      add("mail", "Send a job's report to its user and to the administrators", mail_examples().c_str());
  mail_command->add_option("dir", mail.directory, "the job's directory")->required()->type_name("DIR");
  mail_command
      ->add_option("--to", mail.job.request.asked, "what the user asked for: an address of this site, yes or off")
      ->type_name("ADDR");
  mail_command->add_option("--mail-user", mail.job.request.mail_user, "the address Slurm has for the job")
      ->type_name("ADDR");
  mail_command->add_option("--user", mail.job.request.user, "who owns the job; default: who runs this")
      ->type_name("NAME");
  mail_command->add_option("--array", mail.job.array, "number of the array job: one mail for all its tasks")
      ->check([](const std::string& text) {
        return is_array_id(text.substr(0, text.find('_'))) ? std::string() : "\"" + text + "\" is no number";
      })
      ->type_name("ID");
  mail_command->add_option("--state", mail.job.state, "directory that counts mails; without it none are counted")
      ->type_name("DIR");
  mail_command->add_option("--config", common.config, "read this reveal.conf instead of the site's")->type_name("FILE");
  mail_command->add_flag("--dry-run", mail.job.dry_run, "send nothing, print what would be sent");
  mail_command->add_flag("--verbose", mail.verbose, "say what was sent to whom, and why not");

  CLI::App* probes_command = add("probes", "What this version can measure", "  reveal probes --json");
  CLI::App* rules_command = with_config(
      add("rules", "Which rules exist, with thresholds, proof and sources", "  reveal rules\n  reveal rules --json"));
  CLI::App* doctor_command =
      add("doctor", "What can be measured on this node, what is missing and why", "  reveal doctor");

  JobEnd job_end;
  CLI::App* deliver_command =
      app.add_subcommand("deliver", "At the end of a Slurm job, by its collector: trace, report and mail of one node");
  deliver_command->group("");
  deliver_command->add_option("spool", job_end.spool)->required();
  deliver_command->add_option("--job", job_end.job)->required();
  deliver_command->add_option("--node", job_end.node)->required();
  deliver_command->add_option("--config", job_end.config);
  deliver_command->add_option("--request", job_end.request);
  deliver_command->add_option("--ready-fd", job_end.ready_fd);
  deliver_command->add_option("--mail-state", job_end.mail_state);
  deliver_command->add_flag("--orphan", job_end.orphan);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
    return usage_error(app, error, std::vector<std::string>(argv + 1, argv + argc));
  }

  if (deliver_command->parsed()) return finish_job(job_end);
  if (report_command->parsed()) return run_report(report, common);
  if (show_command->parsed()) return run_show(show, common);
  if (merge_command->parsed()) {
    return run_merge(merge_directory, pack ? MergeForm::self_contained : MergeForm::links, common);
  }
  if (watch_command->parsed()) return run_watch(watch, common);
  if (score_command->parsed()) return print_score(score, common);
  if (prune_command->parsed()) {
    if (only_moving) prune_options.unmoved = RetainedMetrics::Unmoved::dropped;
    return run_prune(prune_options, common);
  }
  if (mail_command->parsed()) return run_mail(mail, common);
  if (probes_command->parsed()) return run_probes(common);
  if (rules_command->parsed()) return run_rules(common);
  if (doctor_command->parsed()) return run_doctor(common);
  return kUsage;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("reveal: not enough memory\n", stderr);
  } catch (const std::exception& error) {
    try {
      complain(error.what());
    } catch (const std::bad_alloc&) {
      std::fputs("reveal: not enough memory\n", stderr);
    }
  }
  return kFailure;
}
