#include "postproc/compare/timed_command.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <iterator>
#include <string_view>
#include <thread>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/own_program.h"
#include "hdf5schema/basics/run_program.h"

namespace reveal {
namespace {

constexpr std::chrono::seconds kLeftBehind(10);
constexpr std::chrono::seconds kLeftBySignal(1);  // the person at the terminal waits
constexpr std::chrono::milliseconds kBetweenLooks(20);
constexpr int kStopSignals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};

std::atomic<int> g_stopped_by{0};
std::atomic<pid_t> g_command{0};
std::atomic<pid_t> g_paused{0};  // the child that was stopped last
bool g_had_children = false;     // before the first command
bool g_outlived = false;
std::array<struct sigaction, std::size(kStopSignals)> g_former{};
struct sigaction g_former_of_children {};

/// The terminal sends its signals to the command as well: once is enough.
extern "C" void stop_the_command(int signal, siginfo_t* from, void*) {
  const bool again = g_stopped_by.exchange(signal) != 0;
  const pid_t command = g_command;
  if (command <= 0) return;
  if (again) {
    ::kill(command, SIGTERM);  // it has left the terminal, or takes no notice
  } else if (from->si_code != SI_KERNEL) {
    ::kill(command, signal);
  }
}

/// waitid(2) knows only the last change of a child: one that goes on and ends before this process runs again, as after
/// Ctrl-Z and fg, seems never to have paused. The signal of its stop is pending meanwhile, and later ones do not
/// replace it: https://man7.org/linux/man-pages/man7/signal.7.html (queueing of standard signals).
extern "C" void note_a_pause(int, siginfo_t* from, void*) {
  if (from->si_code == CLD_STOPPED || from->si_code == CLD_CONTINUED) g_paused = from->si_pid;
}

/// Where the command would find the program: by the PATH of its own environment. "" if there is none.
std::string program_for(const std::string& word, const std::vector<std::string>& environment) {
  constexpr std::string_view kPath = "PATH=";
  constexpr std::string_view kUsual = "/bin:/usr/bin";  // as execvp(3) without a PATH
  if (word.find('/') != std::string::npos) return word;
  const auto set = std::find_if(environment.begin(), environment.end(),
                                [&](const std::string& one) { return one.starts_with(kPath); });
  return find_in_path(word, set == environment.end() ? kUsual : std::string_view(*set).substr(kPath.size()));
}

int start_command(const std::vector<std::string>& words, const std::vector<std::string>& environment, OutputOf output,
                  pid_t& child) {
  SpawnStreams streams;
  streams.set(STDIN_FILENO, -1);
  streams.set(STDOUT_FILENO, output == OutputOf::nowhere ? -1 : STDERR_FILENO);
  return ::posix_spawn(&child, program_for(words.front(), environment).c_str(), streams.get(), nullptr,
                       exec_pointers(words).data(), exec_pointers(environment).data());
}

/// It stays a zombie meanwhile: no other process can have its number when a signal is passed on. True if it was paused.
bool wait_for_end_of(pid_t child) {
  const auto id = static_cast<id_t>(child);
  bool paused = false;
  for (;;) {
    siginfo_t change{};
    if (::waitid(P_PID, id, &change, WEXITED | WSTOPPED | WCONTINUED | WNOWAIT) < 0) {
      if (errno == EINTR) continue;
      return paused;
    }
    if (change.si_code != CLD_STOPPED && change.si_code != CLD_CONTINUED) return paused;
    paused = true;
    ::waitid(P_PID, id, &change, WSTOPPED | WCONTINUED | WNOHANG);
  }
}

bool has_children() {
  siginfo_t ended{};
  return ::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/// Processes that the command started and did not wait for are children of ours now. True if one of them outlives the
/// wait.
bool outlives_the_command() {
  using std::chrono::steady_clock;
  if (g_had_children) return false;  // they cannot be distinguished
  const auto begin = steady_clock::now();
  for (;;) {
    const pid_t ended = ::waitpid(-1, nullptr, WNOHANG);
    if (ended > 0 || (ended < 0 && errno == EINTR)) continue;
    if (ended < 0) return false;
    const std::chrono::seconds patience = g_stopped_by != 0 ? kLeftBySignal : kLeftBehind;
    if (g_outlived || steady_clock::now() - begin >= patience) return g_outlived = true;
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

}  // namespace

ForegroundCommands::ForegroundCommands() {
  g_stopped_by = 0;
  g_outlived = false;
  g_had_children = has_children();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  struct sigaction action {};
  action.sa_sigaction = stop_the_command;
  action.sa_flags = SA_SIGINFO;
  for (std::size_t i = 0; i < std::size(kStopSignals); ++i) {
    ::sigaction(kStopSignals[i], nullptr, &g_former[i]);
    if (g_former[i].sa_handler != SIG_IGN) ::sigaction(kStopSignals[i], &action, nullptr);
  }
  action.sa_sigaction = note_a_pause;
  action.sa_flags |= SA_RESTART;
  ::sigaction(SIGCHLD, &action, &g_former_of_children);
}

ForegroundCommands::~ForegroundCommands() {
  for (std::size_t i = 0; i < std::size(kStopSignals); ++i) ::sigaction(kStopSignals[i], &g_former[i], nullptr);
  ::sigaction(SIGCHLD, &g_former_of_children, nullptr);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

int ForegroundCommands::stopped_by() noexcept {
  return g_stopped_by;
}

TimedRun ForegroundCommands::run(const std::vector<std::string>& words, const std::vector<std::string>& environment,
                                 OutputOf output) {
  g_paused = 0;
  const std::int64_t begin = read_clock(CLOCK_MONOTONIC);
  pid_t child = 0;
  if (const int failure = start_command(words, environment, output, child); failure != 0) {
    return {.start_error = failure};
  }
  g_command = child;
  if (const int signal = g_stopped_by; signal != 0) ::kill(child, signal);  // it came before the command was there
  TimedRun run;
  run.paused = wait_for_end_of(child) || g_paused == child;
  run.seconds = static_cast<double>(read_clock(CLOCK_MONOTONIC) - begin) * 1e-9;
  g_command = 0;
  const int status = ChildProcess(child).wait();
  run.status = status == ChildProcess::kUnknownEnd ? -1 : exit_status(status);
  run.left_processes = outlives_the_command();
  return run;
}

}  // namespace reveal
