// How the node is linked: interfaces with their queues and packet steering, and RDMA ports.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/kernel_text/physical_first.h"
#include "core/snapshot/snapshot.h"
#include "hdf5schema/basics/cpu_mask.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::string_view kInterfaces = "/sys/class/net";
constexpr std::string_view kRdmaDevices = "/sys/class/infiniband";
constexpr std::size_t kMostInterfaces = 32;
constexpr std::size_t kMostPorts = 64;

// A device below another one (virtio below PCI) leaves the NUMA node to its parent.
std::string numa_node_of(KernelTree& fs, const std::string& device) {
  for (const char* place : {"/numa_node", "/../numa_node"}) {
    if (std::string node = fs.word(device + place); !node.empty()) return node;
  }
  return "";
}

/// The kernel's mask of cpus of each queue, by its number; "" where there is none.
std::map<int, std::string> masks_of(KernelTree& fs, const std::string& queues, std::string_view kind,
                                    const char* file) {
  std::map<int, std::string> masks;
  for (const std::string& queue : fs.list(queues)) {
    if (!queue.starts_with(kind)) continue;
    const auto number = parse_int(std::string_view(queue).substr(kind.size()));
    if (number) masks[static_cast<int>(*number)] = fs.word(queues + '/' + queue + file);
  }
  return masks;
}

/// Cpus to which packets are steered after the interrupt, as the kernel's masks; queues that agree are one entry.
std::string steering_of(const std::map<int, std::string>& queues) {
  std::set<std::string> masks;
  for (const auto& [queue, mask] : queues) masks.insert(mask);
  std::string text;
  for (const std::string& mask : masks) text += (text.empty() || mask.empty() ? "" : " ") + mask;
  return text;
}

/// The cpus that each transmit queue serves: "0:0-3 1:4-7", "0-63:none"; "" where they are not known.
std::string senders_of(const std::map<int, std::string>& masks) {
  constexpr std::size_t kLongest = 380;            // values longer than 400 are cut at any place
  std::map<std::string, std::vector<int>> queues;  // by their cpus
  for (const auto& [queue, mask] : masks) {
    if (!mask.empty()) queues[format_cpu_list(cpus_of_mask(mask))].push_back(queue);
  }
  std::map<int, std::string> entries;  // by the first queue
  for (const auto& [cpus, members] : queues) {
    entries[members.front()] = format_cpu_list(members) + ':' + (cpus.empty() ? "none" : cpus);
  }
  std::string text;
  for (const auto& [queue, entry] : entries) {
    if (text.size() + entry.size() > kLongest) return text + " ...";
    text += (text.empty() ? "" : " ") + entry;
  }
  return text;
}

/// "4: ACTIVE" is "ACTIVE".
std::string without_number(const std::string& state) {
  const std::size_t colon = state.find(": ");
  return colon == std::string::npos ? state : state.substr(colon + 2);
}

/// Returns the network interface of an RDMA port. A RoCE port has that of its first address; a software device has the
/// one it was made of; an InfiniBand port has no such address: its IPoIB interface has the port, counted from 0, as
/// `dev_port`. https://docs.kernel.org/admin-guide/abi-stable.html (infiniband), abi-testing.html (net)
std::string interface_of(KernelTree& fs, const std::string& device, const std::string& port) {
  if (std::string name = fs.word(device + "/ports/" + port + "/gid_attrs/ndevs/0"); !name.empty()) return name;
  if (std::string name = fs.word(device + "/parent"); !name.empty()) return name;
  for (const std::string& name : fs.list(device + "/device/net")) {
    const auto number = parse_int(fs.word(device + "/device/net/" + name + "/dev_port"));
    if (number && std::to_string(*number + 1) == port) return name;
  }
  return "";
}

/// Adds the cards below a bond, a VLAN or a bridge. `looks`: a bridge of a host of containers has hundreds of ports.
void add_cards(KernelTree& fs, const std::string& name, int& looks, std::set<std::string>& cards) {
  constexpr std::string_view kLower = "lower_";
  const std::string net = "/sys/class/net/";
  for (const std::string& entry : fs.list(net + name)) {
    if (!entry.starts_with(kLower) || looks-- <= 0) continue;
    const std::string lower = entry.substr(kLower.size());
    if (!fs.list(net + lower + "/device").empty()) {
      cards.insert(lower);
    } else {
      add_cards(fs, lower, looks, cards);
    }
  }
}

/// The traffic of the interface is counted at these, too: "eth0 eth1"; "" for a card.
std::string cards_below(KernelTree& fs, const std::string& name) {
  int looks = 64;
  std::set<std::string> cards;
  add_cards(fs, name, looks, cards);
  std::string text;
  for (const std::string& card : cards) text += (text.empty() ? "" : " ") + card;
  return text;
}

}  // namespace

Snapshot network_links(KernelTree& fs) {
  Snapshot facts;
  std::size_t interfaces = 0;
  std::vector<std::string> names = fs.list(kInterfaces);
  if (names.size() > kMostInterfaces) {  // a host of containers
    names = physical_first(fs, std::move(names), kInterfaces, "/device/physfn");
    std::stable_partition(names.begin(), names.end(), [&](const std::string& name) {
      return !fs.list(std::string(kInterfaces) + '/' + name + "/device").empty();
    });
  }
  for (const std::string& name : names) {
    if (name == "lo" || ++interfaces > kMostInterfaces) continue;
    const std::string folder = std::string(kInterfaces) + '/' + name;
    const auto receiving = masks_of(fs, folder + "/queues", "rx-", "/rps_cpus");
    const auto sending = masks_of(fs, folder + "/queues", "tx-", "/xps_cpus");
    facts.emplace_back("net." + name + ".rps_cpus", steering_of(receiving));
    facts.emplace_back("net." + name + ".xps_cpus", senders_of(sending));
    if (!receiving.empty()) facts.emplace_back("net." + name + ".rx_queues", std::to_string(receiving.size()));
    if (!sending.empty()) facts.emplace_back("net." + name + ".tx_queues", std::to_string(sending.size()));
    facts.emplace_back("net." + name + ".speed", fs.word(folder + "/speed"));  // Mb/s; -1: unknown
    facts.emplace_back("net." + name + ".mtu", fs.word(folder + "/mtu"));
    facts.emplace_back("net." + name + ".vendor", fs.word(folder + "/device/vendor"));  // "0x15b3", of the PCI device
    facts.emplace_back("net." + name + ".numa_node", numa_node_of(fs, folder + "/device"));
    if (std::string cards = cards_below(fs, name); !cards.empty()) {
      facts.emplace_back("net." + name + ".cards", std::move(cards));
    }
  }
  return facts;
}

Snapshot rdma_ports(KernelTree& fs) {
  Snapshot facts;
  std::size_t ports = 0;
  std::vector<std::string> devices = fs.list(kRdmaDevices);
  if (devices.size() > kMostPorts) {
    devices = physical_first(fs, std::move(devices), kRdmaDevices, "/device/physfn");
  }
  for (const std::string& device : devices) {
    const std::string folder = std::string(kRdmaDevices) + '/' + device;
    facts.emplace_back("rdma." + device + ".numa_node", numa_node_of(fs, folder + "/device"));
    facts.emplace_back("rdma." + device + ".type", fs.word(folder + "/hca_type"));  // "MT4129"
    facts.emplace_back("rdma." + device + ".firmware", fs.word(folder + "/fw_ver"));
    for (const std::string& port : fs.list(folder + "/ports")) {
      if (++ports > kMostPorts) return facts;
      const std::string key = "rdma." + device + '.' + port;
      const std::string place = folder + "/ports/" + port;
      facts.emplace_back(key + ".state", without_number(fs.word(place + "/state")));            // "4: ACTIVE"
      facts.emplace_back(key + ".phys_state", without_number(fs.word(place + "/phys_state")));  // "5: LinkUp"
      facts.emplace_back(key + ".rate", fs.word(place + "/rate"));  // "100 Gb/sec (4X EDR)": with the width of the link
      facts.emplace_back(key + ".link_layer", fs.word(place + "/link_layer"));
      facts.emplace_back(key + ".interface", interface_of(fs, folder, port));
    }
  }
  return facts;
}

Snapshot numa_nodes(KernelTree& fs) {
  Snapshot facts;
  constexpr std::string_view kNodes = "/sys/devices/system/node";
  for (const std::string& name : fs.list(kNodes)) {
    if (!name.starts_with("node") || !parse_int(std::string_view(name).substr(4))) continue;
    const std::string folder = std::string(kNodes) + '/' + name;
    facts.emplace_back("numa." + name + ".cpus", fs.word(folder + "/cpulist"));
    facts.emplace_back("numa." + name + ".distance", fs.word(folder + "/distance"));
    for (const std::string& size : fs.list(folder + "/hugepages")) {  // "hugepages-1048576kB"
      facts.emplace_back("numa." + name + '.' + size, fs.word(folder + "/hugepages/" + size + "/nr_hugepages"));
    }
  }
  return facts;
}

}  // namespace reveal
