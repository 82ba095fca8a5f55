// The bridges above the PCI devices of a node. Data between devices below one bridge need not pass the processor; where
// the chains of two devices have no bridge in common, data pass a host bridge.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "hdf5schema/trace.h"

namespace reveal {

class PciTree {
 public:
  /// By the facts "pci.ADDRESS.bridges" and "pci.ADDRESS.device".
  explicit PciTree(const Snapshot& facts);

  /// The root port above a device, which is one port of a host bridge: "0000:c0:01.1"; "" where it is not known.
  [[nodiscard]] std::string root_port(std::string_view address) const;
  /// The same of the card of an RDMA device: "mlx5_0".
  [[nodiscard]] std::string root_port_of_rdma(std::string_view device) const;

 private:
  std::map<std::string, std::string, std::less<>> root_ports_;  // by address
  std::map<std::string, std::string, std::less<>> rdma_;        // addresses by name
};

}  // namespace reveal
