// Starts programs and waits for them, with all signals of the caller blocked (see BlockedSignals): the wrapper never
// runs a signal handler, it asks for signals when it has time for them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

namespace reveal {

/// Blocks all signals and makes sure children can be waited for, even if the caller's parent ignored SIGCHLD.
/// A started program gets back what was in force before.
class BlockedSignals {
 public:
  BlockedSignals();
  void restore_in_child() const noexcept;

 private:
  sigset_t before_{};
  struct sigaction child_before_ {};
};

struct ProgramStart {
  std::vector<std::string> argv;
  int input = -1, output = -1, error = -1;  // -1: as the wrapper's own
  // Own session, deaf to the signals a job is sent to itself (USR1, HUP, ...), no other descriptors, no LD_PRELOAD.
  bool detached = false;
};

struct StartedProgram {
  pid_t pid = -1;
  int error_number = 0;  // why there is no pid, as errno of exec (or of fork)
};

/// Returns when the program runs or is known not to.
[[nodiscard]] StartedProgram start_program(const ProgramStart& start, const BlockedSignals& signals);

/// The status of a waited-for child as a shell says it: its exit code, or 128 + signal.
[[nodiscard]] int shell_status(const siginfo_t& ended) noexcept;

/// Start time of a process in clock ticks since boot: with the pid it names one process for good. Nothing when the
/// process is gone or /proc hides it.
[[nodiscard]] std::optional<long long> process_start_time(pid_t pid);

/// True while `pid` exists (a zombie does not count) and, where /proc tells, is still the process that started then.
[[nodiscard]] bool process_alive(pid_t pid, std::optional<long long> start_time);

/// Sleeps; true at once when a signal says that somebody wants us to come to an end (SIGINT, SIGTERM, SIGHUP, SIGQUIT).
[[nodiscard]] bool interrupted_within(std::chrono::milliseconds time);

enum class WaitEnd { ended, deadline, interrupted };
struct WaitResult {
  WaitEnd end = WaitEnd::deadline;
  std::optional<int> status;  // only a child of ours has one
};

/// Waits for a process, child or not. Interrupted as above: a user who presses Ctrl-C wants the prompt back.
[[nodiscard]] WaitResult wait_for_end(pid_t pid, std::optional<long long> start_time, std::chrono::milliseconds limit);

}  // namespace reveal
