// The host name of this machine.
#pragma once

#include <unistd.h>

#include <string>

namespace reveal {

/// "n03.cluster.example.org"; "localhost" where it has no name.
[[nodiscard]] inline std::string host_name() {
  char name[256] = "";
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

/// "n03".
[[nodiscard]] inline std::string short_host_name() {
  const std::string name = host_name();
  return name.substr(0, name.find('.'));
}

}  // namespace reveal
