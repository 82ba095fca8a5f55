// A batch script with a line more, as a unified diff: the script itself is never changed.
#pragma once

#include <span>
#include <string>

#include "postproc/compare/tried_line.h"

namespace reveal {

struct ScriptPatch {
  std::string diff;     // for patch(1)
  std::string why_not;  // there is none
};

/// `name`: of the file in the diff. The line goes before the one place where the script runs the command.
[[nodiscard]] ScriptPatch script_patch(const std::string& name, const std::string& script, const TriedLine& line,
                                       std::span<const std::string> command);

}  // namespace reveal
