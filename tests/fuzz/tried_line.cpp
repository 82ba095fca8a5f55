// Lines that are tried, and scripts that a line is put into.
#include "postproc/compare/tried_line.h"

#include "hdf5schema/basics/error.h"
#include "postproc/compare/script_patch.h"
#include "target.h"

namespace reveal::fuzz::tried_line {
namespace {

void run(std::string_view input) {
  const std::size_t end = input.find('\n');
  const std::string_view text = end == std::string_view::npos ? std::string_view() : input.substr(end + 1);
  try {
    const TriedLine line = parse_tried_line(input.substr(0, end), "./train");
    if (line.unset.empty()) require(parse_tried_line(as_typed(line), "") == line, "what is printed can be typed again");
    const std::vector<std::string> command{"./train", "--epochs"};
    const ScriptPatch patch = script_patch("job.sh", std::string(text), line, command);
    require(patch.diff.empty() != patch.why_not.empty(), "a patch, or a reason");
  } catch (const Error&) {
  }
}

const RegisteredTarget kTriedLineTarget{{"tried_line", run}};

}  // namespace
}  // namespace reveal::fuzz::tried_line
