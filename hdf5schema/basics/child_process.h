// A child of this process, however it was started: waited for no longer than it is said, and never signalled once it
// was waited for, when its number may be another's.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <utility>

#include "hdf5schema/basics/descriptor.h"

namespace reveal {

class ChildProcess {
 public:
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

  /// As of waitpid(); nothing while it runs. 0 where somebody else reaps our children: nothing is known of them.
  std::optional<int> status() noexcept;
  /// Looks again until then; as precise as the kernel's pidfd, or 10 ms without one (before Linux 5.3).
  /// https://man7.org/linux/man-pages/man2/pidfd_open.2.html
  std::optional<int> wait(std::chrono::milliseconds limit) noexcept;
  void signal(int number) noexcept;
  /// Signals the child and all processes that it started and that stayed in the group it leads.
  void signal_group(int number) noexcept;
  /// False when it hangs inside the kernel: nothing but the end of that call lets it go.
  bool kill(std::chrono::milliseconds limit) noexcept;

 private:
  pid_t pid_ = -1;
  std::optional<int> status_;
  Descriptor end_;  // readable once it has ended
};

}  // namespace reveal
