// How the node's adapters are linked to it: width and speed of their PCI Express links, and errors on them.
// https://www.kernel.org/doc/Documentation/ABI/testing/sysfs-bus-pci-devices-aer
#include <algorithm>
#include <array>

#include "core/kernel_text/kernel_words.h"
#include "core/kernel_text/physical_first.h"
#include "core/snapshot/interrupts.h"
#include "core/snapshot/snapshot.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::size_t kMostDevices = 64;

struct PciClass {
  std::string_view begin;  // begin of the class's number
  std::string_view name;
};
constexpr std::array kAdapterClasses = {PciClass{"0x02", "network"}, PciClass{"0x0108", "nvme"},
                                        PciClass{"0x03", "gpu"}, PciClass{"0x12", "accelerator"}};

std::string_view class_of(KernelTree& fs, const std::string& folder) {
  const std::string number = fs.word(folder + "/class");
  for (const PciClass& known : kAdapterClasses) {
    if (number.starts_with(known.begin)) return known.name;
  }
  return {};
}

// Errors of the link itself. Linux 5.9 shortened their names. The rest of the file is not about the link: a request for
// a feature that a device does not have is an advisory error.
constexpr std::array<std::string_view, 10> kLinkErrors = {
    "RxErr",          "BadTLP",  "BadDLLP",  "Rollover",           "Timeout",
    "Receiver Error", "Bad TLP", "Bad DLLP", "RELAY_NUM Rollover", "Replay Timer Timeout"};

bool is_link_error(std::string_view name) {
  for (const std::string_view known : kLinkErrors) {
    if (name == known) return true;
  }
  return false;
}

/// "" where the kernel counts none.
std::string link_errors(KernelTree& fs, const std::string& folder) {
  const std::string text = fs.text(folder + "/aer_dev_correctable").value_or("");
  std::string_view rest = text;
  std::string_view line;
  std::int64_t sum = 0;
  bool any = false;
  while (next_line(rest, line)) {
    const std::size_t blank = line.find_last_of(' ');
    std::int64_t count = 0;
    if (blank == std::string_view::npos || !is_link_error(line.substr(0, blank))) continue;
    if (!parse_counter(line.substr(blank + 1), count)) continue;
    sum = wrapping_sum(sum, count);
    any = true;
  }
  return any ? std::to_string(sum) : "";
}

std::string total_of(KernelTree& fs, const std::string& path, std::string_view key) {
  const std::string text = fs.text(path).value_or("");
  std::string_view rest = text;
  std::string_view line;
  std::int64_t count = 0;
  while (next_line(rest, line)) {
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    if (parse_counter(next_word(line), count)) return std::to_string(count);
  }
  return "";
}

/// "0000:c0:01.1 0000:c1:00.0" of "../../../devices/pci0000:c0/0000:c0:01.1/0000:c1:00.0/0000:c2:00.0": the bridges
/// from the root port down; "" for a device on a root bus, as in virtual machines.
std::string bridges_above(KernelTree& fs, const std::string& folder) {
  constexpr std::string_view kHostBridge = "/pci";
  const std::string path = fs.link(folder).value_or("");
  const std::size_t host = path.find(kHostBridge, path.find("/devices/") + 1);
  const std::size_t begin = host == std::string::npos ? host : path.find('/', host + 1);
  const std::size_t end = path.rfind('/');
  if (begin == std::string::npos || end <= begin) return "";
  std::string bridges = path.substr(begin + 1, end - begin - 1);
  std::replace(bridges.begin(), bridges.end(), '/', ' ');
  return bridges;
}

// Reading the link of a device that sleeps would wake it.
void add_link(KernelTree& fs, const std::string& address, const std::string& folder, Snapshot& facts) {
  const std::string port = folder + "/..";  // the link leads to the real folder, which lies in that of the port above
  const std::string fixed = "pci." + address;
  const std::string moving = "pci_state." + address;
  facts.emplace_back(fixed + ".width", fs.word(folder + "/current_link_width"));
  facts.emplace_back(fixed + ".max_width", fs.word(folder + "/max_link_width"));
  facts.emplace_back(fixed + ".max_speed", fs.word(folder + "/max_link_speed"));
  facts.emplace_back(fixed + ".port_max_width", fs.word(port + "/max_link_width"));
  facts.emplace_back(fixed + ".port_max_speed", fs.word(port + "/max_link_speed"));
  facts.emplace_back(fixed + ".numa_node", fs.word(folder + "/numa_node"));
  facts.emplace_back(moving + ".speed", fs.word(folder + "/current_link_speed"));
  facts.emplace_back(moving + ".link_errors", link_errors(fs, folder));
  facts.emplace_back(moving + ".port_link_errors", link_errors(fs, port));
  facts.emplace_back(moving + ".nonfatal", total_of(fs, folder + "/aer_dev_nonfatal", "TOTAL_ERR_NONFATAL"));
  facts.emplace_back(moving + ".fatal", total_of(fs, folder + "/aer_dev_fatal", "TOTAL_ERR_FATAL"));
}

}  // namespace

Snapshot pci_links(KernelTree& fs) {
  Snapshot facts;
  std::size_t devices = 0;
  constexpr std::string_view kDevices = "/sys/bus/pci/devices";
  std::vector<std::string> adapters = fs.list(kDevices);
  std::erase_if(adapters, [&](const std::string& address) {
    return class_of(fs, std::string(kDevices) + '/' + address).empty();
  });
  for (const std::string& address : physical_first(fs, std::move(adapters), kDevices, "/physfn")) {
    const std::string folder = std::string(kDevices) + '/' + address;
    const std::string_view kind = class_of(fs, folder);
    if (sleeps(fs.word(folder + "/power/runtime_status")) || fs.word(folder + "/max_link_width").empty()) continue;
    if (++devices > kMostDevices) break;
    facts.emplace_back("pci." + address + ".class", kind);
    facts.emplace_back("pci." + address + ".device", pci_device_name(fs, address));
    facts.emplace_back("pci." + address + ".bridges", bridges_above(fs, folder));
    add_link(fs, address, folder, facts);
  }
  return facts;
}

}  // namespace reveal
