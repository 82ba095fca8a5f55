// JSON on its way from the nodes of a job through srun, which cuts lines after 1024 bytes and mixes the pieces of
// different tasks: each text is sent in short lines that name their task. Received lines are hostile input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reveal {

/// The lines of one text, which has no line's end.
[[nodiscard]] std::string step_lines(std::size_t task, std::string_view text);

class StepLineReader {
 public:
  explicit StepLineReader(std::size_t tasks) : begun_(tasks) {}

  struct Text {
    std::size_t task = 0;
    std::string text;
  };
  /// The texts that are complete with these bytes.
  [[nodiscard]] std::vector<Text> take(std::string_view bytes);
  /// Lines and texts that were left out because they are too long or are not ours.
  [[nodiscard]] std::int64_t left_out() const { return left_out_; }

 private:
  struct Begun {
    std::string text;
    bool too_long = false;
  };
  void take_line(std::string_view line, std::vector<Text>& texts);

  std::string line_;  // the begin of a line
  bool line_too_long_ = false;
  std::vector<Begun> begun_;  // by task
  std::int64_t left_out_ = 0;
};

}  // namespace reveal
