#include "wrapper/command.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::chrono::milliseconds kWitnessLimit{100};
constexpr int kNotFound = 127;
constexpr int kNotRun = 126;
// A job may orphan many processes; only the most recent statuses can be of use.
constexpr std::size_t kMostRemembered = 4096;

bool has_terminal() {
  return static_cast<bool>(Descriptor(::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC)));
}

bool is_job_control_stop(int signal) {
  return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

bool is_pending(int signal) {
  sigset_t pending;
  return ::sigpending(&pending) == 0 && sigismember(&pending, signal) == 1;
}

// Sent by the kernel and yet to us alone: a timer that was set before we were started, and the hang-up of a terminal
// whose session we lead (ssh -t HOST reveal-run ...).
bool is_for_us_alone(int signal) {
  return signal == SIGALRM || (signal == SIGHUP && ::getsid(0) == ::getpid());
}

// From now on they are the command's alone: its reader must see the end of a pipe when the command ends, its writer
// that nobody reads any more. Standard error stays, for our lines and the report.
void let_go_of_the_commands_descriptors() {
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (null) {
    ::dup2(null.get(), STDIN_FILENO);
    ::dup2(null.get(), STDOUT_FILENO);
  }
  std::vector<int> inherited;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    const auto fd = parse_int(entry->path().filename().string());
    if (!fd || *fd <= STDERR_FILENO) continue;
    // What was inherited has passed an exec, and what we open ourselves would not.
    const int flags = ::fcntl(static_cast<int>(*fd), F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) inherited.push_back(static_cast<int>(*fd));
  }
  for (const int fd : inherited) ::close(fd);
}

}  // namespace

int Command::run(const std::vector<std::string>& argv, std::string& failure) {
  // Orphans of the command come to us, so that their cpu time is still counted to the job. Refused: it is not.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  witness_.emplace();
  const StartedProgram started = start_program({.argv = argv}, signals_);
  if (started.pid < 0) {
    witness_.reset();
    failure = argv.front() + ": " + std::generic_category().message(started.error_number);
    return started.error_number == ENOENT ? kNotFound : kNotRun;
  }
  pid_ = started.pid;
  let_go_of_the_commands_descriptors();
  sigset_t all;
  sigfillset(&all);
  int status = 0;
  while (!reap(status)) {
    siginfo_t signal{};
    if (::sigwaitinfo(&all, &signal) > 0 && signal.si_signo != SIGCHLD) forward(signal);
  }
  witness_.reset();
  return status;
}

std::optional<int> Command::status_of(pid_t child) const {
  const auto found = others_.find(child);
  return found == others_.end() ? std::nullopt : std::optional<int>(found->second);
}

void Command::forward(const siginfo_t& signal) {
  // What else the kernel sent came from the terminal, and the command, being in the same process group, has it already.
  const bool from_kernel = signal.si_code > 0;
  if (from_kernel && !is_for_us_alone(signal.si_signo)) return;
  if (!from_kernel && ::getpgid(pid_) == ::getpgrp() && witness_->saw(signal, kWitnessLimit)) return;
  // A SIGCONT empties the queue of stops, so one that is in it came later: a Ctrl-Z right after `fg`, which also kept
  // the witness from speaking. The later one counts.
  if (signal.si_signo == SIGCONT && (is_pending(SIGTSTP) || is_pending(SIGTTIN) || is_pending(SIGTTOU))) return;
  // With the value, for programs that use sigqueue(3); the kernel fills in who we are.
  if (signal.si_code == SI_QUEUE) {
    ::sigqueue(pid_, signal.si_signo, signal.si_value);
  } else {
    ::kill(pid_, signal.si_signo);
  }
}

// True when the command has ended. Everything else that ended is only noted: leaving zombies would use up the job's
// process limit.
bool Command::reap(int& status) {
  siginfo_t child{};
  while (::waitid(P_ALL, 0, &child, WEXITED | WSTOPPED | WNOHANG) == 0 && child.si_pid != 0) {
    const bool stopped = child.si_code == CLD_STOPPED;
    if (child.si_pid == pid_ && stopped) {
      stop_with_command(child.si_status);
    } else if (child.si_pid == pid_) {
      status = shell_status(child);
      return true;
    } else if (child.si_pid == witness_->pid() && !stopped) {
      witness_->is_gone();
    } else if (!stopped) {
      if (others_.size() >= kMostRemembered) others_.erase(others_.begin());
      others_[child.si_pid] = shell_status(child);
    }
    child = {};
  }
  return false;
}

// Ctrl-Z: the shell waits for us, so we stop when, and only when, the command does. Without a terminal nobody could be
// waiting for that, and whoever continues the command alone would leave us stopped.
void Command::stop_with_command(int signal) const {
  if (!is_job_control_stop(signal) || is_pending(SIGCONT) || !has_terminal()) return;
  sigset_t stops;
  sigemptyset(&stops);
  for (const int each : {SIGTSTP, SIGTTIN, SIGTTOU}) sigaddset(&stops, each);
  constexpr timespec kNow{0, 0};
  while (::sigtimedwait(&stops, nullptr, &kNow) > 0) {  // ours of the same key press would stop us a second time
  }
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  ::raise(signal);
  ::sigprocmask(SIG_UNBLOCK, &only, nullptr);  // stops here
  ::sigprocmask(SIG_BLOCK, &only, nullptr);
  // Whoever continued the whole group has continued the command, too, and a further SIGCONT would undo a Ctrl-Z since.
  siginfo_t since{};
  const bool continued =
      ::waitid(P_PID, static_cast<id_t>(pid_), &since, WCONTINUED | WNOHANG) == 0 && since.si_pid != 0;
  since = {};
  const bool stopped_again =
      ::waitid(P_PID, static_cast<id_t>(pid_), &since, WSTOPPED | WNOHANG | WNOWAIT) == 0 && since.si_pid != 0;
  if (!continued && !stopped_again) ::kill(pid_, SIGCONT);
}

}  // namespace reveal
