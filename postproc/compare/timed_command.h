// Runs a command in the foreground and measures its time. Ctrl-C reaches it as it would without us; then no further one
// is started.
#pragma once

#include <string>
#include <vector>

namespace reveal {

enum class OutputOf : bool {
  nowhere,
  standard_error
};  // the target of the command's output; its errors are always shown

struct TimedRun {
  double seconds = 0;
  int start_error = 0;          // an errno: it never ran
  int status = 0;               // as a shell has it: 128 + n for signal n
  bool paused = false;          // it was stopped and went on (Ctrl-Z, fg): its time is useless
  bool left_processes = false;  // something that it started ran on 10 s after its end; after a signal, 1 s
};

/// From construction to destruction, SIGINT, SIGQUIT, SIGTERM and SIGHUP go to the running command and are remembered.
/// Ignored signals stay ignored.
class ForegroundCommands {
 public:
  ForegroundCommands();
  ~ForegroundCommands();
  ForegroundCommands(const ForegroundCommands&) = delete;
  ForegroundCommands& operator=(const ForegroundCommands&) = delete;

  /// The signal that came, or 0.
  [[nodiscard]] static int stopped_by() noexcept;
  /// Waits for its end, and that of processes it leaves behind, which would slow the next one: for 10 s at most, 1 s
  /// after a signal, and no more once something has outlived them. `environment`: "NAME=value". Its standard input is
  /// empty.
  [[nodiscard]] static TimedRun run(const std::vector<std::string>& words, const std::vector<std::string>& environment,
                                    OutputOf output);
};

}  // namespace reveal
