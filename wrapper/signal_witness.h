// Distinguishes signals sent to reveal-run alone from those sent to its whole process group or job. A signal does not
// carry this fact, and only the first kind may be forwarded: a program must not write a checkpoint twice on one
// SIGUSR1.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <vector>

#include "hdf5schema/basics/child_process.h"
#include "hdf5schema/basics/descriptor.h"

namespace reveal {

/// A process that does nothing but stand in our process group, beside the command in lists of command lines, and write
/// down the signals it is sent, too.
class SignalWitness {
 public:
  /// `command`: its words, among those of this program. Without a witness (no process left, no pipe) every signal
  /// counts as sent to us alone.
  explicit SignalWitness(char* const* command) noexcept;
  ~SignalWitness();
  SignalWitness(const SignalWitness&) = delete;
  SignalWitness& operator=(const SignalWitness&) = delete;

  /// True if the same sender sent it the same signal. The senders go from process to process, so it may still come.
  [[nodiscard]] bool saw(const siginfo_t& signal, std::chrono::milliseconds limit) noexcept;
  [[nodiscard]] pid_t pid() const noexcept { return child_.pid(); }
  /// It was killed, and its status was collected: the pid may be another process's now.
  void is_gone() noexcept { child_ = {}; }

 private:
  struct Sighting {
    int signal;
    pid_t sender;
    std::chrono::steady_clock::time_point time;
  };

  ChildProcess child_;
  Descriptor reader_;
  std::vector<Sighting> sightings_;
};

}  // namespace reveal
