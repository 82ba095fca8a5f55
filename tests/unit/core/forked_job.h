// A process that makes itself ready, for example in namespaces of its own, and then does its work until it is killed.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/descriptor.h"

namespace reveal::tests {

class ForkedJob {
 public:
  /// Both run in the process: `begin` returns whether it is ready, `work` is repeated.
  explicit ForkedJob(
      const std::function<bool()>& begin, const std::function<void()>& work = [] { ::pause(); }) {
    Pipe told = open_pipe();
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
      end_with_parent(parent);
      if (!begin() || ::write(told.write.get(), "r", 1) != 1) ::_exit(1);
      while (true) work();
    }
    told.write.close();
    char ready = 0;
    is_ready_ = ::read(told.read.get(), &ready, 1) == 1;
  }
  ~ForkedJob() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ForkedJob(const ForkedJob&) = delete;
  ForkedJob& operator=(const ForkedJob&) = delete;

  [[nodiscard]] bool is_ready() const { return is_ready_; }
  [[nodiscard]] int pid() const { return pid_; }

 private:
  int pid_ = -1;
  bool is_ready_ = false;
};

}  // namespace reveal::tests
