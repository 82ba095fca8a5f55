// Runs the command as if reveal-run were not there: same process group, same descriptors, same signals, same stops.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "wrapper/process.h"
#include "wrapper/witness.h"

namespace reveal {

class Command {
 public:
  explicit Command(const BlockedSignals& signals) : signals_(signals) {}

  /// Runs it to its end, forwarding signals. Returns its status as a shell says it: its own, 128 + signal, 127 if it
  /// was not found, 126 if it could not be run; `failure` then says why.
  [[nodiscard]] int run(const std::vector<std::string>& argv, std::string& failure);

  /// The status of another child that ended meanwhile (the collector).
  [[nodiscard]] std::optional<int> status_of(pid_t child) const;

 private:
  void forward(const siginfo_t& signal);
  bool reap(int& status);
  void stop_with_command(int signal) const;

  const BlockedSignals& signals_;
  pid_t pid_ = -1;
  std::optional<Witness> witness_;  // while the command runs
  std::map<pid_t, int> others_;
};

}  // namespace reveal
