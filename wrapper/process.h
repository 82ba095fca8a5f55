// Starts programs and waits for them, with all signals of the caller blocked (see BlockedSignals): the wrapper never
// runs a signal handler, it reads signals when it has time for them.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reveal {

constexpr int kCommandNotRun = 126;  // as in a shell
constexpr int kCommandNotFound = 127;

/// "reveal-run: ..." on standard error, in one write and without memory of its own. Left out if nobody reads there.
void say_line(std::initializer_list<std::string_view> parts) noexcept;

/// Blocks all signals and makes sure children can be waited for, even if the caller's parent ignored SIGCHLD.
/// A started program gets back the earlier signal settings.
class BlockedSignals {
 public:
  BlockedSignals() noexcept;
  void restore() const noexcept;

 private:
  sigset_t before_{};
  struct sigaction child_before_ {};
};

/// Signals that the kernel raises for an action of the process itself: SIGPIPE for a line without a reader, SIGXFSZ for
/// a file that may not grow. It concerns the wrapper, never the command.
/// https://man7.org/linux/man-pages/man7/signal.7.html
[[nodiscard]] bool raised_by_ourselves(const siginfo_t& signal) noexcept;

void send_signal(pid_t to, const siginfo_t& signal) noexcept;

/// The signals that are pending when it is made, but for those of our own and SIGCHLD: they came before the command was
/// there to receive them.
class EarlySignals {
 public:
  EarlySignals() noexcept;
  void pass_on(pid_t to) const noexcept;

 private:
  std::array<siginfo_t, 64> taken_{};
  std::size_t count_ = 0;
};

struct ProgramStart {
  enum class Role : std::uint8_t {
    command,    // everything as the wrapper found it
    assistant,  // a program of ours: without libraries that the job loads into its programs, and the first to go
                // without memory
    detached,   // an assistant with its own session and descriptors, deaf to signals that a job sends to itself (USR1,
                // HUP, ...)
  };
  Role role = Role::assistant;
  int input = -1, output = -1, error = -1;  // -1: as the wrapper's own
};

struct StartedProgram {
  pid_t pid = -1;
  int error_number = 0;  // why there is no pid
  bool no_room = false;  // the system had no process, descriptor or memory: nothing is known about the program
};

/// Returns when the program runs or is known not to. A program that is not detached ends with the wrapper, even by
/// SIGKILL (except set-user-id programs, which the kernel does not end with ours).
/// https://man7.org/linux/man-pages/man2/prctl.2.html (PR_SET_PDEATHSIG)
[[nodiscard]] StartedProgram start_program(char* const* argv, const ProgramStart& start,
                                           const BlockedSignals& signals) noexcept;
[[nodiscard]] StartedProgram start_program(const std::vector<std::string>& words, const ProgramStart& start,
                                           const BlockedSignals& signals);

/// "NAME=value" without variables for the programs of the job only.
[[nodiscard]] std::vector<std::string> environment_of_assistants();

/// The status of a waited-for child as in a shell: its exit code, or 128 + signal.
[[nodiscard]] int shell_status(const siginfo_t& ended) noexcept;

/// Start time of a process in clock ticks since boot: with the pid it names one process for good. Nothing when the
/// process is gone or /proc hides it.
[[nodiscard]] std::optional<long long> process_start_time(pid_t pid);

/// True while `pid` exists (a zombie does not count) and, if /proc is there, is still the process that started then.
[[nodiscard]] bool process_alive(pid_t pid, std::optional<long long> start_time);
/// Signals that process and no later one with its number (from Linux 5.3 on). False if it was not signalled.
bool signal_process(pid_t pid, std::optional<long long> start_time, int signal);

/// Sleeps; returns true at once on a signal to end (SIGINT, SIGTERM, SIGHUP, SIGQUIT).
[[nodiscard]] bool interrupted_within(std::chrono::milliseconds time);

enum class WaitEnd { ended, deadline, interrupted };
struct WaitResult {
  WaitEnd end = WaitEnd::deadline;
  std::optional<int> status;  // only a child of ours has one
};

/// Waits for a process, child or not. Interrupted as above: after Ctrl-C the user needs the prompt back.
[[nodiscard]] WaitResult wait_for_end(pid_t pid, std::optional<long long> start_time, std::chrono::milliseconds limit);

}  // namespace reveal
