// The name of a network interface for commands, and its configuration facts.
#pragma once

#include <string>
#include <string_view>

#include "postproc/diagnose/rule.h"

namespace reveal {

/// "eth0" of a channel's instance "ns2/eth0": interfaces of the job's network namespaces have the namespace in front.
[[nodiscard]] inline std::string interface_name(std::string_view instance) {
  return std::string(instance.substr(instance.rfind('/') + 1));
}

/// The key of a fact about an interface: "net.ns2/eth0.rx_ring".
[[nodiscard]] inline std::string interface_fact_key(const std::string& instance, std::string_view fact) {
  return "net." + instance + '.' + std::string(fact);
}

/// For the lines of a remedy: a command that is typed on the node acts on the interfaces of its own namespace, where
/// another one may have the same name.
[[nodiscard]] inline JobValues interface_values(const std::string& instance) {
  const bool elsewhere = instance.find('/') != std::string::npos;
  return {{elsewhere ? "in_namespace" : "interface", instance}};
}

}  // namespace reveal
