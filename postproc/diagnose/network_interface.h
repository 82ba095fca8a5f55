// The name of a network interface for commands and configuration facts.
#pragma once

#include <string>
#include <string_view>

namespace reveal {

/// "eth0" of a channel's instance "ns2/eth0": interfaces of the job's network namespaces have the namespace in front.
[[nodiscard]] inline std::string interface_name(std::string_view instance) {
  return std::string(instance.substr(instance.rfind('/') + 1));
}

}  // namespace reveal
