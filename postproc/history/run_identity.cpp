#include "postproc/history/run_identity.h"

#include "hdf5schema/basics/program_name.h"

namespace reveal {

RunIdentity identity_of(const std::string& run_key, const std::string& name, const std::string& command) {
  if (!run_key.empty()) return {"key\n" + run_key, ""};
  if (identifies(name)) return {"name\n" + name + "\n" + command, ""};
  if (identifies(command)) return {"command\n" + command, ""};
  if (command.empty()) return {"", "the command is not known"};
  return {"", "it is not known which program " + command + " ran"};
}

}  // namespace reveal
