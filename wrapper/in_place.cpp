#include "wrapper/in_place.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>

namespace reveal {
namespace {

struct KeptCommand {
  char* const* argv = nullptr;
  const BlockedSignals* signals = nullptr;
  pid_t keeper = -1;
  pid_t running = -1;
  int status = -1;
};
KeptCommand kept;

[[noreturn]] void carry_on() noexcept {
  if (::getpid() != kept.keeper) ::_exit(kCommandNotRun);  // a child of ours: the command is not its concern
  if (kept.status >= 0) ::_exit(kept.status);
  if (kept.running < 0) become_command();
  siginfo_t ended{};
  while (::waitid(P_PID, static_cast<id_t>(kept.running), &ended, WEXITED) != 0 && errno == EINTR) {
  }
  ::_exit(shell_status(ended));
}

}  // namespace

void keep_command(char* const* argv, const BlockedSignals& signals) noexcept {
  kept = {.argv = argv, .signals = &signals, .keeper = ::getpid()};
  std::set_terminate(carry_on);
}

void command_runs_as(pid_t pid) noexcept {
  kept.running = pid;
}

void command_ended_with(int status) noexcept {
  kept.status = status;
}

void become_command() noexcept {
  // https://man7.org/linux/man-pages/man2/prctl.2.html
  ::prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);  // would outlive the exec
  const EarlySignals early;
  early.pass_on(::getpid());
  kept.signals->restore();
  ::execvp(kept.argv[0], kept.argv);
  const int error_number = errno;
  say_line({kept.argv[0], ": ", std::strerror(error_number)});
  ::_exit(error_number == ENOENT ? kCommandNotFound : kCommandNotRun);
}

}  // namespace reveal
