#include "wrapper/profiled_run.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/shell_word.h"
#include "hdf5schema/basics/text.h"
#include "wrapper/closing_report.h"
#include "wrapper/collector.h"
#include "wrapper/command.h"
#include "wrapper/in_place.h"
#include "wrapper/job_directory.h"
#include "wrapper/launch.h"
#include "wrapper/run_directory.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kStartLimit = 50ms;  // the longest delay of the command by us
constexpr auto kLeaveLimit = 1000ms;
constexpr auto kInterruptLimit = 2s;  // from Ctrl-C to the prompt
// No verdict is possible on a run this short; without --output nothing of it is kept, as of a job under Slurm.
constexpr double kShortest = 10;
constexpr const char* kFailedFile = "failed";
constexpr const char* kBegunFile = "begun";

constexpr int kUsageError = 125;

class Lines {
 public:
  explicit Lines(bool quiet) noexcept : quiet_(quiet) {}
  void say(std::initializer_list<std::string_view> parts) const noexcept {
    if (!quiet_) say_line(parts);
  }

 private:
  bool quiet_;
};

struct Profile {
  Launch launch;
  std::optional<RunDirectory> run;
  pid_t collector = -1;                   // if it is our child
  std::optional<JobDirectory> directory;  // where that one records
};

double seconds_since_boot() noexcept {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

void begin(Profile& profile, const RunSettings& settings, std::span<const std::string> command,
           const BlockedSignals& signals, const Environment& environment, const Lines& lines) {
  const std::string base = run_directory_base(environment);
  profile.run.emplace(profile.launch, base, kStartLimit);
  if (profile.run->locked()) {
    const auto say = [&](const std::string& text) {
      if (profile.launch.prints()) lines.say({text});
    };
    try {
      profile.collector = ensure_collector(settings, profile.launch, command, *profile.run, signals, environment, say);
      if (profile.collector > 0) profile.directory = recorded_in(*profile.run);
    } catch (...) {
      profile.run->unlock();  // the other ranks of this node wait for it when they leave
      throw;
    }
    profile.run->unlock();
    remove_abandoned_runs(base);
  }
  // The time in microseconds: the launch's duration counts from its first rank.
  if (profile.run->read(kBegunFile).empty()) {
    profile.run->write(kBegunFile, std::to_string(static_cast<long long>(seconds_since_boot() * 1e6)));
  }
}

/// True for the last rank of the launch on this node, which finishes for all.
bool leave(Profile& profile, std::optional<int> status) {
  if (!profile.run) return false;
  std::string lost;
  try {
    if (status && *status != 0 && profile.run->still_in_place() && profile.run->read(kFailedFile).empty()) {
      profile.run->write(kFailedFile, std::to_string(*status));
    }
  } catch (const Error& error) {  // the disk may be full, and the command may have failed for that
    lost = error.what();
  }
  const bool last = profile.run->leave(kLeaveLimit);
  if (!last && !lost.empty()) throw Error(lost);  // the last one does not know this status
  return last;
}

struct Ended {
  int status = 0;
  double began = 0;  // seconds since boot
  double seconds = 0;
  bool line_open = false;  // "^C" is on the terminal
};

void forget(const Profile& profile) noexcept try {
  if (profile.run) discard_collector(profile.launch, *profile.run);
} catch (const std::exception&) {  // no memory: it ends with us
}

ReportOrder order_for(const std::string& directory, const RunSettings& settings, const Ended& ended) {
  return {.directory = directory,
          .node = {},
          .status = ended.status,
          .seconds = ended.seconds,
          .retain = settings.retain,
          .quiet = settings.quiet,
          .limit = {}};
}

/// Closing, copying and explaining: a process of its own does it, because a file system may not answer.
void finish(Profile& profile, const RunSettings& settings, const Ended& ended, std::optional<int> collector_status,
            const BlockedSignals& signals, const Lines& lines, Clock::time_point deadline) {
  const CollectorResult collected = await_collector(profile.launch, *profile.run, collector_status);
  profile.run.reset();
  if (collected.end == CollectorEnd::never_started) return;
  if (collected.end == CollectorEnd::too_short) {
    lines.say({"the command ended before the first sample; there is nothing to report"});
    return;
  }
  if (collected.end == CollectorEnd::failed) lines.say({"the profile is incomplete: ", collected.reason});
  const std::string& directory = collected.directory.path;
  if (directory.empty()) return;
  if (const std::string problem = deliver(collected.directory, profile.launch.node); !problem.empty())
    lines.say({problem});
  ReportOrder order = order_for(directory, settings, ended);
  if (collected.end == CollectorEnd::interrupted || !settings.report) {
    lines.say({"recorded in ", directory, "; for the report: ", report_command(order)});
    return;
  }
  order.node = profile.launch.node;
  const auto left = [&] { return std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()); };
  order.limit = left();
  const ReportResult report = run_report(order, signals);
  if (report.end == ReportEnd::failed) lines.say({"no report: ", report.reason});
  if (settings.mail.empty() || report.end != ReportEnd::built) return;
  order.limit = left();
  if (const std::string problem = mail_report(order, settings.mail, signals); !problem.empty()) {
    lines.say({"no mail to ", settings.mail, ": ", problem, "; the report is in ", directory});
  }
}

/// A run that was killed with its collector, as by the end of a container, delivers nothing.
void say_undelivered(const Lines& lines) {
  const std::vector<std::string> left = undelivered_traces();
  if (left.empty()) return;
  const std::string more = left.size() > 1 ? "; and " + std::to_string(left.size() - 1) + " more beside it" : "";
  lines.say({"the trace of an earlier run was not delivered; for its report: reveal report ", shell_word(left.front()),
             more});
}

/// Runs `work` in a child and waits for it; without a child to be had, here. At the deadline, or some time after
/// Ctrl-C, the child is killed.
template <typename Work>
WaitEnd in_a_child(Clock::time_point deadline, Work&& work) {
  const pid_t parent = ::getpid();
  ChildProcess child = fork_child([&] {
    end_with_parent(parent);
    work();
    return 0;
  });
  if (!child) {
    work();
    return WaitEnd::ended;
  }
  constexpr auto kGrace = 500ms;  // its own limit is the same, and its message has more details
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  WaitEnd end = wait_for_end(child.pid(), std::nullopt, left + kGrace).end;
  if (end == WaitEnd::interrupted) {
    child.signal(SIGINT);
    end = wait_for_end(child.pid(), std::nullopt, kInterruptLimit).end;
  }
  if (end != WaitEnd::ended) child.signal(SIGKILL);
  return end;
}

/// The place of a recording that gets no report now.
void say_where(const JobDirectory& directory, std::string_view why, const RunSettings& settings, const Ended& ended,
               const Lines& lines) {
  const bool kept_in_spool = directory.spooled() && ::access(directory.recording.c_str(), F_OK) == 0;
  const std::string& place = kept_in_spool ? directory.recording : directory.path;
  lines.say({why, "; recorded in ", place, "; for the report: ", report_command(order_for(place, settings, ended))});
}

/// Without the files of the launch, its ranks do not find each other. The collector closes its trace when the last of
/// them has ended.
void give_up_run(const Profile& profile, const RunSettings& settings, const Ended& ended, const Lines& lines) {
  if (!profile.directory || !profile.run->was_removed()) return;
  // The directory's file system may not answer: then the claim is left, and the next run takes another directory.
  static_cast<void>(in_a_child(Clock::now(), [&]() noexcept { abandon(*profile.directory, profile.launch.node); }));
  say_where(*profile.directory, profile.run->path() + " was removed while the command ran", settings, ended, lines);
}

void close_run(Profile& profile, const RunSettings& settings, Ended ended, std::optional<int> collector_status,
               const BlockedSignals& signals, const Lines& lines) {
  const auto deadline = Clock::now() + settings.report_limit;
  // The rank that failed decides the status of the launch, not the rank that ended last.
  if (const auto failed = parse_int(profile.run->read(kFailedFile))) ended.status = static_cast<int>(*failed);
  if (const auto begun = parse_int(profile.run->read(kBegunFile))) {
    ended.seconds = std::max(ended.seconds, ended.began + ended.seconds - static_cast<double>(*begun) * 1e-6);
  }
  const bool too_short = ended.seconds < kShortest && settings.output.empty();
  signal_collector(*profile.run, too_short ? SIGKILL : SIGTERM);
  if (ended.line_open && !settings.quiet && ::isatty(STDERR_FILENO) == 1) {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, "\n", 1);
  }
  const std::optional<JobDirectory> directory = recorded_in(*profile.run);
  const WaitEnd end = in_a_child(deadline, [&]() noexcept {
    try {
      if (too_short) {
        discard_collector(profile.launch, *profile.run);
        profile.run.reset();
      } else {
        finish(profile, settings, ended, collector_status, signals, lines, deadline);
      }
      say_undelivered(lines);
    } catch (const std::exception& error) {
      lines.say({"the profile could not be finished: ", error.what()});
    }
  });
  if (!directory) return;
  if (end != WaitEnd::ended) {
    say_where(*directory, end == WaitEnd::deadline ? "not finished in time" : "interrupted", settings, ended, lines);
  } else if (too_short) {
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, ended.seconds < 1 ? "%.2f" : "%.1f", ended.seconds);
    lines.say({seconds, " s is too short to judge; reveal kept nothing (--output DIR keeps the trace)"});
  }
}

/// A shell that runs a script ends the script at Ctrl-C only if its command died of it.
/// https://www.cons.org/cracauer/sigint.html
void die_of_interrupt() noexcept {
  ::signal(SIGINT, SIG_DFL);
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  ::raise(SIGINT);
  ::sigprocmask(SIG_UNBLOCK, &interrupt, nullptr);  // ends here, except as the first process of a container
}

}  // namespace

int run_profiled(const RunOrder& order, char* const* command, const Environment& environment,
                 const BlockedSignals& signals) noexcept {
  const RunSettings& settings = order.settings;
  const Lines lines(settings.quiet);
  std::string problem;
  try {
    problem = names_problem(settings.probes, settings.stack_without);
  } catch (const std::exception&) {  // the query failed: then it reports at the end
  }
  if (!problem.empty() && order.names_are_typed) {
    say_line({problem});
    return kUsageError;
  }
  Profile profile;
  bool profiled = true;
  try {
    profile.launch = identify_launch(node_name(settings, environment), environment);
    for (const std::string& warning : order.warnings) {
      if (profile.launch.prints()) lines.say({warning});
    }
    if (!problem.empty()) throw Error(problem);  // in a file or the environment: the job runs
    std::vector<std::string> words;
    for (char* const* word = command; *word != nullptr; ++word) words.emplace_back(*word);
    begin(profile, settings, words, signals, environment, lines);
  } catch (const std::exception& error) {
    profiled = false;
    if (profile.launch.prints()) lines.say({"running without a profile: ", error.what()});
  }

  Command runner(signals);
  Ended ended{.began = seconds_since_boot()};
  const StartedProgram started = runner.start(command);
  if (started.pid < 0) {
    try {
      if (leave(profile, std::nullopt)) forget(profile);
    } catch (const std::exception&) {  // the next run removes it
    }
    if (started.no_room) {
      if (profiled) lines.say({"running without a profile: ", std::strerror(started.error_number)});
      profile.run.reset();
      become_command();
    }
    // Not a warning about us but the command's own failure, so it is printed even with --quiet, as by a shell.
    say_line({command[0], ": ", std::strerror(started.error_number)});
    return started.error_number == ENOENT ? kCommandNotFound : kCommandNotRun;
  }
  command_runs_as(started.pid);
  ended.status = runner.wait(profile.collector);
  command_ended_with(ended.status);
  ended.seconds = seconds_since_boot() - ended.began;
  ended.line_open = runner.interrupted_by_terminal();
  try {
    if (leave(profile, ended.status)) {
      close_run(profile, settings, ended, runner.status_of_other(), signals, lines);
    } else {
      give_up_run(profile, settings, ended, lines);
    }
  } catch (const std::exception& error) {
    lines.say({"the profile could not be finished: ", error.what()});
  }
  profile.run.reset();
  if (runner.died_of_interrupt()) die_of_interrupt();
  return ended.status;
}

}  // namespace reveal
