#include "postproc/history/run_identity.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "postproc/diagnose/interpreters.h"

namespace reveal {
namespace {

/// What Slurm calls a job that nobody named.
constexpr std::string_view kNoNames[] = {"wrap", "interactive", "sbatch", "salloc"};

bool identifies(const std::string& name) {
  return !name.empty() && !is_interpreter(name) &&
         std::find(std::begin(kNoNames), std::end(kNoNames), name) == std::end(kNoNames);
}

}  // namespace

RunIdentity identity_of(const std::string& run_key, const std::string& name, const std::string& command) {
  if (!run_key.empty()) return {"key\n" + run_key, ""};
  if (identifies(name)) return {"name\n" + name + "\n" + command, ""};
  if (identifies(command)) return {"command\n" + command, ""};
  if (command.empty()) return {"", "the command is not known"};
  return {"", "it is not known which program " + command + " ran"};
}

}  // namespace reveal
