// The identity of a run: the program that ran, never its interpreter.
#pragma once

#include <string>

namespace reveal {

/// `text` is the same for all runs of one command; "" and the reason if it cannot be determined.
struct RunIdentity {
  std::string text;
  std::string why_not;
};

/// `run_key`: of the trace or of the batch system; "" in traces that have none, where a name that the user chose or a
/// program of its own must do.
[[nodiscard]] RunIdentity identity_of(const std::string& run_key, const std::string& name, const std::string& command);

}  // namespace reveal
