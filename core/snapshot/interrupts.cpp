#include "core/snapshot/interrupts.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "core/kernel_text/kernel_words.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::string_view kPciDevices = "/sys/bus/pci/devices";
// The classes of devices in sysfs; a virtio device hangs these below its own folder.
constexpr std::string_view kClasses[] = {"net", "infiniband", "nvme", "block", "drm", "ata", "host"};

std::vector<InterruptFact> fired(KernelTree& fs, std::int64_t least) {
  std::vector<InterruptFact> facts;
  const std::string text = fs.text("/proc/interrupts").value_or("");
  std::string_view rest = text;
  std::string_view line;
  static_cast<void>(next_line(rest, line));
  while (next_line(rest, line)) {
    std::string_view key = next_word(line);
    if (key.size() < 2) continue;
    key.remove_suffix(1);
    const auto number = parse_int(key);
    if (!number) continue;
    InterruptFact fact;
    fact.number = static_cast<int>(*number);
    std::string_view word = next_word(line);
    for (auto count = parse_int(word); count; word = next_word(line), count = parse_int(word)) {
      fact.count = wrapping_sum(fact.count, *count);
    }
    fact.name = line.substr(line.find_last_of(' ') + 1);
    if (fact.count >= least) facts.push_back(std::move(fact));
  }
  return facts;
}

void add_classes(KernelTree& fs, const std::string& folder, std::string& text) {
  for (const std::string_view name : kClasses) {
    for (const std::string& member : fs.list(folder + '/' + std::string(name))) {
      text += (text.empty() ? "" : ", ") + std::string(name) + ' ' + member;
    }
  }
}

/// The PCI device that owns each message-signalled interrupt.
std::map<int, std::string> owners(KernelTree& fs) {
  std::map<int, std::string> by_number;
  for (const std::string& address : fs.list(kPciDevices)) {
    for (const std::string& number : fs.list(std::string(kPciDevices) + '/' + address + "/msi_irqs")) {
      if (const auto value = parse_int(number)) by_number[static_cast<int>(*value)] = address;
    }
  }
  return by_number;
}

// Since Linux 6.12 the mask of an interrupt that cannot be moved cannot be opened for writing; if debugfs can be read,
// it has this on any kernel.
std::string managed(KernelTree& fs, int number) {
  const std::string text = fs.text("/sys/kernel/debug/irq/irqs/" + std::to_string(number)).value_or("");
  if (!text.empty()) return text.find("IRQD_AFFINITY_MANAGED") != std::string::npos ? "yes" : "no";
  const std::string path = "/proc/irq/" + std::to_string(number) + "/smp_affinity";
  const std::string writable = fs.fact("@irq/" + std::to_string(number) + "/writable", [&] {
    struct stat status {};
    if (::stat((fs.root() + path).c_str(), &status) != 0) return std::string();
    return std::string((status.st_mode & S_IWUSR) != 0 ? "yes" : "no");
  });
  return writable == "no" ? "yes" : "";  // older kernels always let root try
}

}  // namespace

std::string pci_device_name(KernelTree& fs, const std::string& address) {
  const std::string folder = std::string(kPciDevices) + '/' + address;
  std::string classes;
  add_classes(fs, folder, classes);
  for (const std::string& child : fs.list(folder)) {
    if (child.starts_with("virtio")) add_classes(fs, folder + '/' + child, classes);
  }
  return address + (classes.empty() ? "" : ' ' + classes);
}

std::vector<InterruptFact> interrupt_facts(KernelTree& fs, std::int64_t least, std::size_t most) {
  std::vector<InterruptFact> facts = fired(fs, least);
  std::stable_sort(facts.begin(), facts.end(), [](const auto& a, const auto& b) { return a.count > b.count; });
  if (facts.size() > most) facts.resize(most);
  const std::map<int, std::string> devices = owners(fs);
  std::map<std::string, std::string> descriptions;
  for (InterruptFact& fact : facts) {
    const std::string folder = "/proc/irq/" + std::to_string(fact.number);
    fact.affinity = fs.word(folder + "/smp_affinity_list");
    fact.effective = fs.word(folder + "/effective_affinity_list");
    fact.managed = managed(fs, fact.number);
    const auto device = devices.find(fact.number);
    if (device == devices.end()) continue;
    std::string& description = descriptions[device->second];
    if (description.empty()) description = pci_device_name(fs, device->second);
    fact.device = description;
    const std::string node = fs.word(std::string(kPciDevices) + '/' + device->second + "/numa_node");
    if (node != "-1") fact.numa_node = node;
  }
  return facts;
}

}  // namespace reveal
