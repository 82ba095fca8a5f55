// The output of the subcommands: results to stdout, complaints to stderr, one line each.
#pragma once

#include <mutex>
#include <string>
#include <thread>

namespace reveal {

/// "reveal: TEXT" on stderr.
void complain(const std::string& text);

/// Whether stdout is a terminal.
[[nodiscard]] bool prints_on_terminal();

/// Prints to stdout; on a terminal without control characters. Throws Error if it cannot be written.
void print(const std::string& text);

/// Writes a file beside the results, which matter more: complains if it cannot be written. Nothing for no path.
void write_beside(const std::string& path, const std::string& text);

/// One line on the terminal for work that takes longer than two seconds; silent elsewhere.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void say(const std::string& text);

 private:
  void run(const std::stop_token& stop);

  std::mutex mutex_;
  std::string text_ = "working";
  bool shown_ = false;
  std::jthread thread_;
};

}  // namespace reveal
