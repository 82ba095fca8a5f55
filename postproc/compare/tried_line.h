// A line that may help a job, taken apart so that it can be put before a command without a shell: variables of its
// environment, and words that come first (numactl, taskset, ...); or options for a launcher that the command begins
// with itself (torchrun, srun).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "postproc/diagnose/finding.h"

namespace reveal {

struct TriedLine {
  std::vector<std::pair<std::string, std::string>> set;  // name and value
  std::vector<std::string> unset;
  std::vector<std::string> prefix;
  std::vector<std::string> options;  // behind the command's first word

  [[nodiscard]] bool empty() const noexcept {
    return set.empty() && unset.empty() && prefix.empty() && options.empty();
  }
  bool operator==(const TriedLine&) const = default;
};

/// Splits a line as a shell does; a comment ends it. Throws Error for features that need a shell: pipes, variables,
/// patterns.
[[nodiscard]] std::vector<std::string> shell_words(std::string_view line);

/// "export A=1 B=2", "unset A", "A=1 numactl --membind=0 COMMAND ..."; `command`, its first word, ends the words before
/// it. "torchrun --numa-binding=node ..." adds an option where that is torchrun, too.
/// Throws Error where the line cannot be tried this way.
[[nodiscard]] TriedLine parse_tried_line(std::string_view line, const std::string& command);

/// Several lines at once, the first one outermost.
[[nodiscard]] TriedLine joined(const std::vector<TriedLine>& lines);

/// The first of the finding's lines for users that can be put before a command. Its text must be a row of the rule
/// table, filled in: a file does not decide which command is run. Throws Error if there is none.
[[nodiscard]] std::string line_to_try(const Finding& finding, const std::string& command);

/// For a shell: quoted where needed. An option stays one.
[[nodiscard]] std::string option_word(const std::string& word);

/// "A=1 taskset -c 0"; options behind the command's first word as "... --numa-binding=node".
[[nodiscard]] std::string as_typed(const TriedLine& line);
/// The words that are run: those of the command with the line's.
[[nodiscard]] std::vector<std::string> command_with(const TriedLine& line, std::span<const std::string> command);
/// "A=1 taskset -c 0 ./train --epochs 3"
[[nodiscard]] std::string as_typed(const TriedLine& line, std::span<const std::string> command);

/// The environment of the command: the caller's with these changes.
[[nodiscard]] std::vector<std::string> environment_with(const TriedLine& line,
                                                        std::span<const std::string> environment);

}  // namespace reveal
