// A child of this process, however it was started: waited for no longer than the given time, and never signalled after
// it was waited for, because then its process id may be that of another process.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <utility>

#include "hdf5schema/basics/descriptor.h"

namespace reveal {

class ChildProcess {
 public:
  /// The status of a child that other code waited for. No child ends with it; as an exit_status() it is a failure.
  static constexpr int kUnknownEnd = 0x1ff00;

  ChildProcess() = default;
  explicit ChildProcess(pid_t pid) noexcept : pid_(pid) {}
  ChildProcess(ChildProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), status_(other.status_), end_(std::move(other.end_)) {}
  ChildProcess& operator=(ChildProcess&& other) noexcept {
    pid_ = std::exchange(other.pid_, -1);
    status_ = other.status_;
    end_ = std::move(other.end_);
    return *this;
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess() = default;  // leaves it alone

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  explicit operator bool() const noexcept { return pid_ > 0; }

  /// The status of waitpid(); no value while the child runs.
  std::optional<int> status() noexcept { return look(WNOHANG); }
  /// Waits until the child ends, however long that takes.
  int wait() noexcept { return look(0).value_or(kUnknownEnd); }
  /// Looks again until then; as precise as the kernel's pidfd, or 10 ms without one (before Linux 5.3).
  /// https://man7.org/linux/man-pages/man2/pidfd_open.2.html
  std::optional<int> wait(std::chrono::milliseconds limit) noexcept;
  /// False when it was not sent.
  bool signal(int number) noexcept;
  /// Signals the child and all processes that it started and that stayed in the group it leads.
  void signal_group(int number) noexcept;
  /// False when it hangs inside the kernel: nothing but the end of that call lets it go.
  bool kill(std::chrono::milliseconds limit) noexcept;

 private:
  std::optional<int> look(int options) noexcept;

  pid_t pid_ = -1;
  std::optional<int> status_;
  Descriptor end_;  // readable once it has ended
};

/// The child runs `work` and exits with its result, or with 1 if it throws. Empty if fork() failed: errno has the
/// reason.
template <typename Work>
[[nodiscard]] ChildProcess fork_child(Work&& work) noexcept {
  const pid_t pid = ::fork();
  if (pid != 0) return ChildProcess(pid);
  int status = 1;
  try {
    status = work();
  } catch (...) {  // the stack above is the parent's: nothing may unwind into it
  }
  ::_exit(status);
}

/// Call it in a child: it then gets this signal when its parent ends, even by SIGKILL, or at once if that was before.
/// https://man7.org/linux/man-pages/man2/prctl.2.html (PR_SET_PDEATHSIG)
void end_with_parent(pid_t parent, int signal = SIGKILL) noexcept;

/// The exit status as a shell reports it: 128 + n for signal n.
[[nodiscard]] int exit_status(int waitpid_status) noexcept;

}  // namespace reveal
