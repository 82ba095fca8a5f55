#include "postproc/diagnose/rdma_ports.h"

#include <algorithm>
#include <charconv>

namespace reveal {
namespace {

constexpr std::string_view kRdma = "rdma.";
constexpr std::string_view kState = ".state";
constexpr std::string_view kUp = "ACTIVE";

RdmaPort with_key(const RuleContext& context, const std::string& key) {
  const std::size_t dot = std::min(key.rfind('.'), key.size());
  RdmaPort port{.key = key, .device = key.substr(0, dot), .number = key.substr(std::min(dot + 1, key.size()))};
  port.name = port.device + ':' + port.number;
  port.link_layer = context.snapshot_value("rdma." + key + ".link_layer");
  port.interface = context.snapshot_value("rdma." + key + ".interface");
  port.rate = link_rate_of(context.snapshot_value("rdma." + key + ".rate"));
  port.mlx_tools = has_mlx_tools(port.device, context.snapshot_value("rdma." + port.device + ".type"));
  return port;
}

}  // namespace

LinkRate link_rate_of(std::string_view text) {
  LinkRate rate;
  std::from_chars(text.data(), text.data() + text.size(), rate.gigabits);
  const std::size_t open = text.find('(');
  if (open != std::string::npos) std::from_chars(text.data() + open + 1, text.data() + text.size(), rate.lanes);
  return rate;
}

std::vector<RdmaPort> active_rdma_ports(const RuleContext& context) {
  std::vector<RdmaPort> ports;
  for (const auto& [key, value] : context.begin) {
    if (!key.starts_with(kRdma) || !key.ends_with(kState) || value != kUp) continue;
    ports.push_back(with_key(context, key.substr(kRdma.size(), key.size() - kRdma.size() - kState.size())));
  }
  return ports;
}

RdmaPort rdma_port(const RuleContext& context, const std::string& name) {
  std::string key = name;
  if (const std::size_t colon = key.rfind(':'); colon != std::string::npos) key[colon] = '.';
  return with_key(context, key);
}

bool was_ever_up(const RuleContext& context, const RdmaPort& port) {
  const std::string key = std::string(kRdma) + port.key + std::string(kState);
  bool known = false;
  for (const Snapshot* snapshot : {&context.begin, &context.end}) {
    for (const auto& [name, value] : *snapshot) {
      if (name != key) continue;
      if (value == kUp) return true;
      known = true;
    }
  }
  return !known;
}

}  // namespace reveal
