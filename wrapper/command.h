// Runs the command as if reveal-run were not there: same process group, same descriptors, same signals, same stops.
#pragma once

#include <sys/types.h>

#include <optional>

#include "wrapper/process.h"
#include "wrapper/signal_witness.h"

namespace reveal {

class Command {
 public:
  explicit Command(const BlockedSignals& signals) noexcept : signals_(signals) {}

  [[nodiscard]] StartedProgram start(char* const* argv) noexcept;

  /// Waits for its end, forwarding signals. Returns its status like a shell: its own, or 128 + signal. The end of
  /// `other_child`, another child of ours (the collector, or -1), is noted meanwhile.
  [[nodiscard]] int wait(pid_t other_child) noexcept;

  [[nodiscard]] std::optional<int> status_of_other() const noexcept { return other_status_; }
  /// The user pressed Ctrl-C or Ctrl-\: the terminal shows it, and the line is not ended.
  [[nodiscard]] bool interrupted_by_terminal() const noexcept { return interrupted_by_terminal_; }
  /// The command did not handle the Ctrl-C.
  [[nodiscard]] bool died_of_interrupt() const noexcept { return interrupted_by_terminal_ && killed_by_interrupt_; }

 private:
  void forward(const siginfo_t& signal) noexcept;
  bool reap(int& status) noexcept;
  void stop_with_command(int signal) const noexcept;

  const BlockedSignals& signals_;
  pid_t pid_ = -1;
  pid_t other_child_ = -1;
  std::optional<int> other_status_;
  std::optional<SignalWitness> witness_;  // while the command runs
  bool interrupted_by_terminal_ = false;
  bool killed_by_interrupt_ = false;
};

}  // namespace reveal
