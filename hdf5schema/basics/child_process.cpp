#include "hdf5schema/basics/child_process.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>

namespace reveal {

std::optional<int> ChildProcess::look(int options) noexcept {
  if (status_ || pid_ <= 0) return status_;
  int status = 0;
  pid_t ended = 0;
  do {
    ended = ::waitpid(pid_, &status, options);
  } while (ended < 0 && errno == EINTR);
  if (ended != 0) status_ = ended < 0 ? kUnknownEnd : status;
  return status_;
}

std::optional<int> ChildProcess::wait(std::chrono::milliseconds limit) noexcept {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLook{10};
  const auto end = Clock::now() + limit;
  if (!status() && pid_ > 0 && !end_) {
    end_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));  // closed on exec
  }
  while (!status() && pid_ > 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) break;
    pollfd ended{end_.get(), POLLIN, 0};  // -1: left out
    ::poll(&ended, 1, static_cast<int>((end_ ? left : std::min(left, kLook)).count()));
  }
  return status();
}

bool ChildProcess::signal(int number) noexcept {
  return pid_ > 0 && !status() && ::kill(pid_, number) == 0;  // -1 would signal all processes
}

void ChildProcess::signal_group(int number) noexcept {
  if (pid_ > 0 && !status()) ::kill(-pid_, number);
}

bool ChildProcess::kill(std::chrono::milliseconds limit) noexcept {
  signal(SIGKILL);
  return pid_ <= 0 || wait(limit).has_value();
}

void end_with_parent(pid_t parent, int signal) noexcept {
  ::prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0);
  if (::getppid() != parent) ::kill(::getpid(), SIGKILL);
}

int exit_status(int waitpid_status) noexcept {
  return WIFEXITED(waitpid_status) ? WEXITSTATUS(waitpid_status) : 128 + WTERMSIG(waitpid_status);
}

}  // namespace reveal
