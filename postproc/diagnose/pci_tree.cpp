#include "postproc/diagnose/pci_tree.h"

#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

/// "mlx5_0" of "0000:c3:00.0 net ib0, infiniband mlx5_0".
std::string rdma_name_in(std::string_view device) {
  constexpr std::string_view kClass = "infiniband";
  for (std::string_view word = next_word(device); !word.empty(); word = next_word(device)) {
    if (word != kClass) continue;
    word = next_word(device);
    return std::string(word.substr(0, word.find(',')));
  }
  return "";
}

}  // namespace

PciTree::PciTree(const Snapshot& facts) {
  constexpr std::string_view kPrefix = "pci.";
  constexpr std::string_view kBridges = ".bridges";
  constexpr std::string_view kDevice = ".device";
  for (const auto& [key, value] : facts) {
    if (!key.starts_with(kPrefix)) continue;
    const std::string_view name = std::string_view(key).substr(kPrefix.size());
    if (name.ends_with(kBridges)) {
      root_ports_.emplace(name.substr(0, name.size() - kBridges.size()), value.substr(0, value.find(' ')));
    } else if (name.ends_with(kDevice)) {
      const std::string rdma = rdma_name_in(value);
      if (!rdma.empty()) rdma_.emplace(rdma, name.substr(0, name.size() - kDevice.size()));
    }
  }
}

std::string PciTree::root_port(std::string_view address) const {
  const auto found = root_ports_.find(address);
  return found == root_ports_.end() ? "" : found->second;
}

std::string PciTree::root_port_of_rdma(std::string_view device) const {
  const auto found = rdma_.find(device);
  return found == rdma_.end() ? "" : root_port(found->second);
}

}  // namespace reveal
