#include "wrapper/collector.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "hdf5schema/basics/child_answer.h"
#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/own_program.h"
#include "hdf5schema/basics/program_name.h"
#include "hdf5schema/basics/run_key.h"
#include "hdf5schema/basics/run_program.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/basics/trace_halves.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;

constexpr const char* kPidFile = "collector";
constexpr const char* kOutputFile = "output";
constexpr const char* kLogFile = "collector.log";
constexpr std::string_view kNotStarted = "none: ";
constexpr auto kStopLimit = 10s;
// The longest delay of the command.
constexpr auto kAnswerLimit = 2s;
constexpr auto kDirectoryLimit = 1500ms;
constexpr auto kNamesLimit = 500ms;

std::string last_line(std::string_view text) {
  std::string_view line;
  std::string last;
  while (next_line(text, line)) {
    if (!line.empty()) last = line;
  }
  return last;
}

std::string ending_of(std::optional<int> status, const std::string& log) {
  // The collector's own message is better than any of ours.
  if (std::string said = last_line(log); !said.empty()) return said;
  if (!status) return "the collector ended too early";
  if (*status > 128) return "the collector was killed by signal " + std::to_string(*status - 128);
  return "the collector ended with status " + std::to_string(*status);
}

struct Running {
  pid_t pid = -1;
  std::optional<long long> started;
  JobDirectory directory;
};

std::optional<Running> read_running(const RunDirectory& run) {
  const std::string pid_text = run.read(kPidFile);
  const std::string paths = run.read(kOutputFile);
  std::string_view rest = pid_text;
  std::string_view line;
  if (!next_line(rest, line)) return std::nullopt;
  const auto pid = parse_int(next_word(line));
  const auto started = parse_int(next_word(line));
  if (!pid || *pid <= 0) return std::nullopt;
  Running running{.pid = static_cast<pid_t>(*pid)};
  if (started && *started >= 0) running.started = *started;
  const std::size_t end_of_path = std::min(paths.find('\0'), paths.size());
  running.directory = {paths.substr(0, end_of_path), paths.substr(std::min(end_of_path + 1, paths.size()))};
  return running.directory.recording.empty() ? std::nullopt : std::optional<Running>(running);
}

std::string trace_path(const Launch& launch, const Running& running) {
  return running.directory.recording + "/" + launch.node + ".h5";
}

/// Removes the rows that a killed collector published for `reveal watch` (hdf5schema/live_rows.h).
void remove_live_rows(const std::string& trace) {
  for (const std::string& file : {trace + ".live", trace + ".watch"}) ::unlink(file.c_str());
}

/// Removes what a collector left that was killed while it made its closed trace smaller, or began a segment.
void remove_halves(const std::string& trace) {
  for (const std::string_view ending : kTraceHalves) ::unlink(trace_half(trace, ending).c_str());
}

bool exists(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

}  // namespace

std::string names_problem(const std::string& probes, const std::string& functions) {
  if (probes.empty() && functions.empty()) return "";
  std::vector<std::string> command{beside_us("reveal-collect"), "--list-probes"};
  if (!probes.empty()) command.insert(command.end(), {"--probes", probes});
  if (!functions.empty()) command.insert(command.end(), {"--stack-without", functions});
  const ProgramEnd end = run_program({.command = std::move(command),
                                      .environment = environment_of_assistants(),
                                      .listen = ProgramRun::Listen::errors,
                                      .limit = kAnswerLimit});
  // Only its own refusal counts. A collector that cannot run (a library is missing) costs the profile, not the job.
  constexpr int kRefused = 2;
  const bool refused = end.status && exit_status(*end.status) == kRefused;
  const std::string said = refused ? last_line(end.output) : "";
  const std::size_t colon = said.find(": ");
  return colon == std::string::npos ? said : said.substr(colon + 2);
}

namespace {

/// The name that the job has beside that of its command, which is recorded anyway; the batch system's or "" if there is
/// none.
std::string name_beside_command(std::span<const std::string> command, const Environment& environment) {
  const std::string given = environment("SLURM_JOB_NAME");
  std::string name = job_name(given, command, words_of_this_node());
  return name == std::filesystem::path(command.front()).filename().string() ? given : name;
}

struct RunNames {
  std::string key;
  std::string job;
};

/// They depend on which words of the command are files, and a file system may not answer: then there is no key.
RunNames names_of_run(const RunSettings& settings, std::span<const std::string> command,
                      const Environment& environment) {
  constexpr std::size_t kLongest = 16384;
  if (!settings.name.empty()) return {"name:" + settings.name, settings.name};
  const ChildAnswer answer = query_child(
      [&] { return run_key(command) + '\0' + name_beside_command(command, environment); }, kNamesLimit, kLongest);
  const std::size_t end_of_key = answer.text.find('\0');
  if (end_of_key == std::string::npos) return {{}, environment("SLURM_JOB_NAME")};
  return {answer.text.substr(0, end_of_key), answer.text.substr(end_of_key + 1)};
}

std::vector<std::string> collector_command(const RunSettings& settings, const Launch& launch,
                                           const JobDirectory& directory, const std::string& run_directory,
                                           std::span<const std::string> command, const Environment& environment) {
  std::vector<std::string> words{beside_us("reveal-collect"),
                                 "--output",
                                 directory.recording + "/" + launch.node + ".h5",
                                 "--node",
                                 launch.node,
                                 "--interval",
                                 settings.interval,
                                 "--job",
                                 "run:" + run_directory,
                                 "--command",
                                 std::filesystem::path(command.front()).filename().string()};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  const RunNames names = names_of_run(settings, command, environment);
  add("--run-key", names.key);
  add("--job-id", environment("SLURM_JOB_ID"));
  add("--job-name", names.job);
  add("--probes", settings.probes);
  add("--metrics", settings.metrics);
  add("--gpu-library", settings.gpu_library);
  add("--intervene", settings.interventions);
  if (settings.stack) words.emplace_back("--stack");
  add("--stack-budget", settings.stack_budget);
  add("--stack-without", settings.stack_without);
  if (!settings.faster_reading) words.emplace_back("--no-faster-reading");
  // A summary is made by the report, which needs all rows.
  if (settings.retain != kRetainSummary) add("--retain", settings.retain);
  for (const auto& [key, value] : settings.tags) {
    std::string tag = key;
    add("--tag", tag.append("=").append(value));
  }
  return words;
}

pid_t start_in(const JobDirectory& directory, const RunSettings& settings, const Launch& launch,
               std::span<const std::string> command, const RunDirectory& run, const BlockedSignals& signals,
               const Environment& environment) {
  run.write(kOutputFile, directory.path + '\0' + directory.recording);  // names may hold line ends

  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const Descriptor log = run.open_log(kLogFile);
  const StartedProgram started = start_program(
      collector_command(settings, launch, directory, run.path(), command, environment),
      {.role = ProgramStart::Role::detached, .input = null.get(), .output = null.get(), .error = log.get()}, signals);
  if (started.pid < 0) throw system_error("reveal-collect", started.error_number);
  try {
    const auto time = process_start_time(started.pid);
    run.write(kPidFile, std::to_string(started.pid) + " " + std::to_string(time.value_or(-1)) + "\n");
  } catch (const std::exception&) {  // no other rank would find it to end it
    ::kill(started.pid, SIGKILL);
    static_cast<void>(wait_for_end(started.pid, std::nullopt, 1s));
    throw;
  }
  return started.pid;
}

pid_t start_collector(const RunSettings& settings, const Launch& launch, std::span<const std::string> command,
                      const RunDirectory& run, const BlockedSignals& signals, const Environment& environment,
                      const std::function<void(const std::string&)>& say) {
  const std::string wanted = choose_job_directory(settings, environment);
  const JobDirectory directory = make_job_directory_within(kDirectoryLimit, wanted, launch.node);
  pid_t pid = -1;
  try {
    pid = start_in(directory, settings, launch, command, run, signals, environment);
  } catch (const std::exception&) {
    abandon(directory, launch.node);
    throw;
  }
  if (directory.path != wanted) say(wanted + " has another run of this node; recording in " + directory.path);
  return pid;
}

}  // namespace

pid_t ensure_collector(const RunSettings& settings, const Launch& launch, std::span<const std::string> command,
                       const RunDirectory& run, const BlockedSignals& signals, const Environment& environment,
                       const std::function<void(const std::string&)>& say) {
  if (const std::string known = run.read(kPidFile); !known.empty()) {
    // The rank that prints messages for the launch is not always the one that tried.
    if (known.starts_with(kNotStarted)) throw Error(known.substr(kNotStarted.size()));
    return -1;
  }
  try {
    return start_collector(settings, launch, command, run, signals, environment, say);
  } catch (const std::exception& error) {
    // The other ranks need not try, and fail, again.
    run.write(kPidFile, std::string(kNotStarted) + error.what());
    throw;
  }
}

std::optional<JobDirectory> recorded_in(const RunDirectory& run) {
  const std::optional<Running> running = read_running(run);
  return running ? std::optional(running->directory) : std::nullopt;
}

void signal_collector(const RunDirectory& run, int signal) noexcept try {
  const std::optional<Running> running = read_running(run);
  if (running) signal_process(running->pid, running->started, signal);
} catch (const std::exception&) {  // no memory: it ends with the job
}

CollectorResult await_collector(const Launch& launch, const RunDirectory& run, std::optional<int> status) {
  const std::optional<Running> running = read_running(run);
  if (!running) return {CollectorEnd::never_started, {}, {}};
  CollectorResult result{CollectorEnd::closed, running->directory, {}};
  if (!status) {
    const WaitResult waited = wait_for_end(running->pid, running->started, kStopLimit);
    if (waited.end == WaitEnd::interrupted) result.end = CollectorEnd::interrupted;
    status = waited.status;
    if (waited.end == WaitEnd::deadline) {
      signal_process(running->pid, running->started, SIGKILL);
      static_cast<void>(wait_for_end(running->pid, running->started, 1s));
    }
  }
  // The closed trace decides: the exit status is known to only one of the ranks.
  const std::string trace = trace_path(launch, *running);
  remove_live_rows(trace);
  if (result.end == CollectorEnd::interrupted) return result;  // it may still make its trace smaller
  remove_halves(trace);
  if (exists(trace)) return result;
  const bool begun = exists(trace + ".part");
  const std::string log = run.read(kLogFile);
  if (!begun && log.empty() && status.value_or(128 + SIGTERM) == 128 + SIGTERM) {
    abandon(running->directory, launch.node);
    return {CollectorEnd::too_short, {}, {}};
  }
  result.end = CollectorEnd::failed;
  result.reason = ending_of(status, log);
  if (begun) {
    result.reason += "; the flushed part is kept in " + trace + ".part";
  } else {
    abandon(running->directory, launch.node);
    result.directory = {};
  }
  return result;
}

void discard_collector(const Launch& launch, const RunDirectory& run) {
  const std::optional<Running> running = read_running(run);
  if (!running) return;
  signal_process(running->pid, running->started, SIGKILL);
  static_cast<void>(wait_for_end(running->pid, running->started, 1s));
  const std::string trace = trace_path(launch, *running);
  for (const std::string& file : {trace, trace + ".part"}) ::unlink(file.c_str());
  remove_live_rows(trace);
  remove_halves(trace);
  abandon(running->directory, launch.node);
}

}  // namespace reveal
