// Runs another program to its end or until its time is up: a mail server or a controller that does not answer must not
// hold a node.
#pragma once

#include <spawn.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/basics/child_process.h"

namespace reveal {

struct ProgramRun {
  enum class Listen : std::uint8_t {
    nothing,  // both its streams go to /dev/null
    output,   // its errors are ours
    errors,   // its output goes to /dev/null
  };
  std::vector<std::string> command;  // at least one word; without a slash it is looked up in our PATH
  std::optional<std::vector<std::string>> environment;  // "NAME=value"; else ours
  std::string_view input;                               // on its standard input, else that is /dev/null
  Listen listen = Listen::nothing;
  std::size_t output_limit = 4096;
  /// With one, the program gets a process group, which is killed as a whole. Without one it stays in ours, so that
  /// signals of the terminal reach it as well.
  std::optional<std::chrono::milliseconds> limit;
};

struct ProgramEnd {
  int start_error = 0;        // an errno: it never ran
  std::optional<int> status;  // as of waitpid(); nothing when its time was up
  bool input_taken = false;   // all of it
  std::string output;         // the first ProgramRun::output_limit bytes
  bool truncated = false;
};

/// Waits for the program, not for processes it leaves running. Throws Error if no pipe can be made.
[[nodiscard]] ProgramEnd run_program(const ProgramRun& run);

/// Words as exec has them, or variables. Valid as long as they are.
[[nodiscard]] std::vector<char*> exec_pointers(const std::vector<std::string>& words);

/// Standard streams of a program, as file actions of posix_spawn(). Streams that are not named are ours.
class SpawnStreams {
 public:
  SpawnStreams() { posix_spawn_file_actions_init(&actions_); }
  ~SpawnStreams() { posix_spawn_file_actions_destroy(&actions_); }
  SpawnStreams(const SpawnStreams&) = delete;
  SpawnStreams& operator=(const SpawnStreams&) = delete;

  /// This descriptor; -1: /dev/null.
  void set(int stream, int fd);
  [[nodiscard]] const posix_spawn_file_actions_t* get() const noexcept { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

}  // namespace reveal
