#include "wrapper/command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <filesystem>
#include <system_error>
#include <vector>

#include "hdf5schema/basics/descriptor.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::chrono::milliseconds kWitnessLimit{100};
constexpr timespec kNow{0, 0};
// Without descriptors to wait for, a signal that was lost in a failing call does not leave us waiting for longer.
constexpr timespec kSafetyNet{1, 0};

/// A regular file stays open: no reader waits for its end, and a close would release a lock that a launcher took before
/// it became this program. https://man7.org/linux/man-pages/man2/fcntl_locking.2.html
bool is_regular_file(int fd) noexcept {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

bool has_terminal() noexcept {
  return static_cast<bool>(Descriptor(::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC)));
}

bool is_job_control_stop(int signal) noexcept {
  return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

bool is_pending(int signal) noexcept {
  sigset_t pending;
  return ::sigpending(&pending) == 0 && sigismember(&pending, signal) == 1;
}

// Signals that the kernel sends to us alone: a timer that was set before we were started, and the hang-up of a terminal
// of which we lead the session (ssh -t HOST reveal-run ...).
bool is_for_us_alone(int signal) noexcept {
  return signal == SIGALRM || (signal == SIGHUP && ::getsid(0) == ::getpid());
}

// From now on, only the command has these descriptors: its reader must see the end of a pipe when the command ends, its
// writer must see that its reader is gone. Standard error stays, for our lines and the report.
void let_go_of_the_commands_descriptors() noexcept try {
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
    // Inherited descriptors have passed an exec; descriptors that we open would not.
    const int flags = ::fcntl(static_cast<int>(*fd), F_GETFD);
    const bool is_inherited = flags >= 0 && (flags & FD_CLOEXEC) == 0;
    if (is_inherited && !is_regular_file(static_cast<int>(*fd))) inherited.push_back(static_cast<int>(*fd));
  }
  for (const int fd : inherited) ::close(fd);
} catch (const std::exception&) {  // no memory: they stay open until we end
}

/// The wrapper sleeps on this while the command runs: unlike a signal, the end of a process is not lost by waiting for
/// it.
class News {
 public:
  explicit News(pid_t child) noexcept
      : child_(static_cast<int>(::syscall(SYS_pidfd_open, child, 0))), signals_(all_signals()) {}

  /// True when the command has ended or a signal is pending; false, at once, where that cannot be waited for.
  [[nodiscard]] bool wait() const noexcept {
    if (!child_ || !signals_) return false;
    pollfd events[] = {{child_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
    return ::poll(events, 2, -1) > 0;
  }

 private:
  static int all_signals() noexcept {
    sigset_t all;
    sigfillset(&all);
    return ::signalfd(-1, &all, SFD_CLOEXEC);
  }

  Descriptor child_;  // before Linux 5.3 there is none
  Descriptor signals_;
};

}  // namespace

StartedProgram Command::start(char* const* argv) noexcept {
  // Orphans of the command come to us, so that their cpu time is still counted to the job. Refused: it is not.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  witness_.emplace(argv);
  const EarlySignals early;
  const StartedProgram started = start_program(argv, {.role = ProgramStart::Role::command}, signals_);
  pid_ = started.pid;
  if (pid_ > 0) {
    early.pass_on(pid_);
  } else {
    witness_.reset();
    if (started.no_room) early.pass_on(::getpid());
  }
  return started;
}

int Command::wait(pid_t other_child) noexcept {
  other_child_ = other_child;
  let_go_of_the_commands_descriptors();
  sigset_t all;
  sigfillset(&all);
  int status = 0;
  const News news(pid_);
  bool in_vain = false;
  while (!reap(status)) {
    const bool notified = !in_vain && news.wait();
    siginfo_t signal{};
    const int number = ::sigtimedwait(&all, &signal, notified ? &kNow : &kSafetyNet);
    in_vain = notified && number <= 0;
    if (number > 0 && number != SIGCHLD) forward(signal);
  }
  witness_.reset();
  // The key press that ended the command may have ended it before its signal came here.
  sigset_t keys;
  sigemptyset(&keys);
  for (const int each : {SIGINT, SIGQUIT}) sigaddset(&keys, each);
  while (::sigtimedwait(&keys, nullptr, &kNow) > 0) interrupted_by_terminal_ = true;
  return status;
}

void Command::forward(const siginfo_t& signal) noexcept {
  if (raised_by_ourselves(signal)) return;
  // All other signals of the kernel came from the terminal, and the command, which is in the same process group, has
  // them already.
  if (signal.si_code > 0 && !is_for_us_alone(signal.si_signo)) {
    interrupted_by_terminal_ = interrupted_by_terminal_ || signal.si_signo == SIGINT || signal.si_signo == SIGQUIT;
    return;
  }
  if (signal.si_code <= 0 && ::getpgid(pid_) == ::getpgrp() && witness_->saw(signal, kWitnessLimit)) return;
  // A SIGCONT empties the queue of stops, so one that is in it came later: a Ctrl-Z right after `fg`, which also kept
  // the witness from answering. The later one counts.
  // https://pubs.opengroup.org/onlinepubs/9699919799/functions/V2_chap02.html (2.4.1)
  if (signal.si_signo == SIGCONT && (is_pending(SIGTSTP) || is_pending(SIGTTIN) || is_pending(SIGTTOU))) return;
  send_signal(pid_, signal);
}

// True when the command has ended. Other ended children are reaped, too: zombies would use up the job's process limit.
bool Command::reap(int& status) noexcept {
  siginfo_t child{};
  while (::waitid(P_ALL, 0, &child, WEXITED | WSTOPPED | WNOHANG) == 0 && child.si_pid != 0) {
    const bool stopped = child.si_code == CLD_STOPPED;
    if (child.si_pid == pid_ && stopped) {
      stop_with_command(child.si_status);
    } else if (child.si_pid == pid_) {
      status = shell_status(child);
      killed_by_interrupt_ = child.si_code != CLD_EXITED && child.si_status == SIGINT;
      return true;
    } else if (child.si_pid == witness_->pid() && !stopped) {
      witness_->is_gone();
    } else if (child.si_pid == other_child_ && !stopped) {
      other_status_ = shell_status(child);
    }
    child = {};
  }
  return false;
}

// Ctrl-Z: the shell waits for us, so we stop when, and only when, the command does. Without a terminal no shell waits
// for that, and a SIGCONT to the command alone would leave us stopped.
void Command::stop_with_command(int signal) const noexcept {
  if (!is_job_control_stop(signal) || is_pending(SIGCONT) || !has_terminal()) return;
  sigset_t stops;
  sigemptyset(&stops);
  for (const int each : {SIGTSTP, SIGTTIN, SIGTTOU}) sigaddset(&stops, each);
  while (::sigtimedwait(&stops, nullptr, &kNow) > 0) {  // ours of the same key press would stop us a second time
  }
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  ::raise(signal);
  ::sigprocmask(SIG_UNBLOCK, &only, nullptr);  // stops here
  ::sigprocmask(SIG_BLOCK, &only, nullptr);
  // A SIGCONT to the whole group has continued the command, too, and another one would undo a later Ctrl-Z.
  siginfo_t since{};
  const bool continued =
      ::waitid(P_PID, static_cast<id_t>(pid_), &since, WCONTINUED | WNOHANG) == 0 && since.si_pid != 0;
  since = {};
  const bool stopped_again =
      ::waitid(P_PID, static_cast<id_t>(pid_), &since, WSTOPPED | WNOHANG | WNOWAIT) == 0 && since.si_pid != 0;
  if (!continued && !stopped_again) ::kill(pid_, SIGCONT);
}

}  // namespace reveal
