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

/// The key of a fact about an interface: "net.ns2/eth0.rx_ring". Recordings of earlier versions have it without the
/// namespace.
[[nodiscard]] inline std::string interface_fact_key(const RuleContext& context, const std::string& instance,
                                                    std::string_view fact) {
  const auto key = [fact](const std::string& name) { return "net." + name + '.' + std::string(fact); };
  return context.snapshot_value(key(instance)).empty() ? key(interface_name(instance)) : key(instance);
}

}  // namespace reveal
