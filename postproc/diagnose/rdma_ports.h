// The RDMA ports of a node, from its snapshots.
#pragma once

#include <string>
#include <vector>

#include "postproc/diagnose/rule.h"

namespace reveal {

/// "400 Gb/sec (4X NDR)", "2.5 Gb/sec (1X SDR)"
struct LinkRate {
  double gigabits = 0;  // 0: unknown
  int lanes = 0;        // likewise
};
[[nodiscard]] LinkRate link_rate_of(std::string_view text);

/// Whether the tools of NVIDIA's (Mellanox) adapters are for this one. `type`: "MT4129"; "" if unknown.
[[nodiscard]] inline bool has_mlx_tools(std::string_view device, std::string_view type) {
  return type.starts_with("MT") || device.starts_with("mlx");
}

struct RdmaPort {
  std::string key;   // "mlx5_0.1", of its facts
  std::string name;  // "mlx5_0:1", as its channels, NCCL and UCX call it
  std::string device;
  std::string number;
  std::string link_layer;  // "InfiniBand", "Ethernet"
  std::string interface;   // "ib0"; "" if unknown
  LinkRate rate;           // at the start
  bool mlx_tools = false;

  [[nodiscard]] bool is_ethernet() const { return link_layer == "Ethernet"; }
  /// Returns values for remedies.
  [[nodiscard]] JobValues values() const {
    JobValues values{{"device", device}, {"port", number}, {"interface", interface}};
    if (!is_ethernet()) values["infiniband"] = "yes";
    if (mlx_tools) values["mlx"] = "yes";
    return values;
  }
};

/// The ports that were up when the recording began.
[[nodiscard]] std::vector<RdmaPort> active_rdma_ports(const RuleContext& context);
/// The port of a channel, also where nothing more is known of it.
[[nodiscard]] RdmaPort rdma_port(const RuleContext& context, const std::string& name);

/// Whether the port was up at the start or at the end; a port without a cable does not matter. True if no snapshot has
/// its state.
[[nodiscard]] bool was_ever_up(const RuleContext& context, const RdmaPort& port);

}  // namespace reveal
