// Errors a person reads: one line that names the place, what happened and, if known, the remedy.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace reveal {

/// Cannot go on. Caught in `main`, printed as one line, exit status 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Something this node does not have (no PSI, no cpufreq). A coverage fact, not an error.
class Unavailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// "DIR/n03.h5: No such file or directory", from errno at the time of the call.
[[nodiscard]] Error system_error(const std::string& what, int error_number);

}  // namespace reveal
