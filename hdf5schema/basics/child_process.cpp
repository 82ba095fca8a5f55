#include "hdf5schema/basics/child_process.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

namespace reveal {

constexpr int kUnknownEnd = 255 << 8;  // no success

std::optional<int> ChildProcess::status() noexcept {
  if (status_ || pid_ <= 0) return status_;
  int status = 0;
  const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
  if (ended == pid_) status_ = status;
  if (ended < 0 && errno != EINTR) status_ = kUnknownEnd;  // somebody else waited for it
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

void ChildProcess::signal(int number) noexcept {
  if (pid_ > 0 && !status()) ::kill(pid_, number);  // -1 would be everybody
}

void ChildProcess::signal_group(int number) noexcept {
  if (pid_ > 0 && !status()) ::kill(-pid_, number);
}

bool ChildProcess::kill(std::chrono::milliseconds limit) noexcept {
  signal(SIGKILL);
  return pid_ <= 0 || wait(limit).has_value();
}

}  // namespace reveal
