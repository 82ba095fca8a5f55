#include "postproc/diagnose/locality_map.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <limits>
#include <set>

#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/numa_layout.h"
#include "postproc/diagnose/pci_tree.h"
#include "postproc/numerics/present_values.h"
#include "postproc/telemetry/telemetry.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

constexpr int kNoPlace = std::numeric_limits<int>::max();  // the last place
// Limits, because a foreign trace may hold any number of entries.
constexpr std::size_t kMostProcesses = 64;
constexpr std::size_t kMostGpus = 64;      // GPUs of a process
constexpr std::size_t kMostVectors = 256;  // the collector reports half as many
constexpr std::size_t kMostInPlace = 64;   // things of a kind in one place
constexpr std::size_t kLongestList = 200;  // characters of a list of cpus
constexpr double kWorthAWord = 0.01;       // share of a process's time or memory

class Facts {
 public:
  Facts(const Snapshot& begin, const Snapshot& end) {
    for (const Snapshot* facts : {&begin, &end}) {
      for (const auto& [key, value] : *facts) values_.try_emplace(key, value);
    }
  }

  [[nodiscard]] std::string value(const std::string& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? "" : found->second;
  }
  [[nodiscard]] int numa(const std::string& key) const { return numa_node_number(value(key)).value_or(kNoPlace); }
  /// "eth0" of "net.eth0.mtu" for "net." and ".mtu", in the order of keys.
  [[nodiscard]] std::set<std::string> names(std::string_view begin, std::string_view end) const {
    std::set<std::string> found;
    for (auto at = values_.lower_bound(begin); at != values_.end() && at->first.starts_with(begin); ++at) {
      const std::string& key = at->first;
      if (key.size() > begin.size() + end.size() && key.ends_with(end)) {
        found.insert(key.substr(begin.size(), key.size() - begin.size() - end.size()));
      }
    }
    return found;
  }
  [[nodiscard]] Snapshot all() const { return {values_.begin(), values_.end()}; }

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

using Places = std::map<int, LocalityPlace>;

/// "0000:81:00.0 net eth2, infiniband mlx5_0" is "net eth2, infiniband mlx5_0", and an address alone itself.
std::string device_words(const std::string& device) {
  const std::size_t blank = device.find(' ');
  return blank == std::string::npos ? device : device.substr(blank + 1);
}

/// By the name that reveal gives it; empty for none.
std::map<std::string, int> add_gpus(const Facts& facts, Places& places) {
  std::map<std::string, int> nodes;
  std::set<std::string> named;
  for (const std::string& gpu : facts.names("gpu.", ".address")) {
    const std::string key = "gpu." + gpu;
    const std::string address = facts.value(key + ".address");
    int node = facts.numa(key + ".numa_node");
    if (node == kNoPlace) node = facts.numa("pci." + address + ".numa_node");
    const bool divided = facts.value(key + ".mig") == "enabled";
    nodes[gpu] = node;
    named.insert(address);
    places[node].gpus.push_back(fmt::format("{} ({}{})", gpu, address, divided ? ", divided by MIG" : ""));
  }
  for (const std::string& address : facts.names("pci.", ".class")) {
    const std::string kind = facts.value("pci." + address + ".class");
    if ((kind != "gpu" && kind != "accelerator") || named.contains(address)) continue;
    places[facts.numa("pci." + address + ".numa_node")].gpus.push_back(address);
  }
  return nodes;
}

/// The GPUs that a card reaches without the host bridge: "gpu0, gpu1".
std::string gpus_beside(const Facts& facts, const PciTree& tree, const std::string& device) {
  const std::string port = tree.root_port_of_rdma(device);
  std::vector<std::string> gpus;
  for (const std::string& gpu : facts.names("gpu.", ".address")) {
    const bool beside = !port.empty() && tree.root_port(facts.value("gpu." + gpu + ".address")) == port;
    if (beside && gpus.size() < kMostGpus) gpus.push_back(gpu);
  }
  return joined(gpus, ", ");
}

/// An RDMA device with its ports and their interfaces is one card; the other interfaces follow.
void add_networks(const Facts& facts, Places& places) {
  const PciTree tree(facts.all());
  std::map<std::string, std::vector<std::string>> ports;  // by device
  std::set<std::string> seen;
  for (const std::string& port : facts.names("rdma.", ".state")) {
    const std::string key = "rdma." + port;
    const std::string interface = facts.value(key + ".interface");
    std::vector<std::string> words;
    for (const std::string& word : {interface, facts.value(key + ".rate"), facts.value(key + ".state")}) {
      if (!word.empty()) words.push_back(word);
    }
    seen.insert(interface);
    const std::size_t dot = port.rfind('.');
    ports[port.substr(0, dot)].push_back(joined(words, ", "));
  }
  for (const auto& [device, words] : ports) {
    const std::string gpus = gpus_beside(facts, tree, device);
    places[facts.numa("rdma." + device + ".numa_node")].networks.push_back(
        fmt::format("{} ({}{})", device, joined(words, "; "), gpus.empty() ? "" : "; on the PCI switch of " + gpus));
  }
  std::set<std::string> interfaces = facts.names("net.", ".numa_node");
  interfaces.merge(facts.names("net.", ".vendor"));  // an interface with neither is made of software
  for (const std::string& interface : interfaces) {
    if (seen.contains(interface)) continue;
    const auto megabits = parse_int(facts.value("net." + interface + ".speed"));
    places[facts.numa("net." + interface + ".numa_node")].networks.push_back(
        megabits && *megabits > 0 ? fmt::format("{} ({:g} Gb/s)", interface, static_cast<double>(*megabits) / 1000)
                                  : interface);
  }
}

/// The vectors of one device: where they are served.
struct Vectors {
  int node = kNoPlace;
  std::size_t far = 0;    // that only cpus of other NUMA nodes serve
  std::vector<int> cpus;  // in rising order
};

Vectors vectors_of(const Facts& facts, const NumaLayout& layout, const std::vector<std::string>& numbers) {
  Vectors vectors;
  for (const std::string& number : numbers) {
    const std::string key = "irq." + number;
    vectors.node = facts.numa(key + ".numa_node");
    std::string served = facts.value(key + ".effective");
    if (served.empty()) served = facts.value(key + ".affinity");
    bool near = false;
    const std::size_t before = vectors.cpus.size();
    for (const int cpu : parse_cpu_list(served)) {
      const auto place = layout.node_of(cpu);
      if (!place) continue;
      near = near || *place == vectors.node;
      vectors.cpus.push_back(cpu);
    }
    const bool known = vectors.cpus.size() > before;
    vectors.far += known && !near && vectors.node != kNoPlace ? 1 : 0;
  }
  std::sort(vectors.cpus.begin(), vectors.cpus.end());
  vectors.cpus.erase(std::unique(vectors.cpus.begin(), vectors.cpus.end()), vectors.cpus.end());
  return vectors;
}

void add_interrupts(const Facts& facts, const NumaLayout& layout, Places& places) {
  std::map<std::string, std::vector<std::string>> devices;
  std::size_t seen = 0;
  for (const std::string& number : facts.names("irq.", ".device")) {
    if (++seen <= kMostVectors) devices[facts.value("irq." + number + ".device")].push_back(number);
  }
  for (const auto& [device, numbers] : devices) {
    const Vectors vectors = vectors_of(facts, layout, numbers);
    std::string words =
        fmt::format("{}: {}", device_words(device), counted(static_cast<double>(numbers.size()), "vector"));
    words += vectors.cpus.empty() ? ", served by unknown cpus"
                                  : " on cpus " + shortened(format_cpu_list(vectors.cpus), kLongestList);
    if (vectors.far > 0) words += fmt::format(", {} of them on another NUMA node", vectors.far);
    places[vectors.node].interrupts.push_back(std::move(words));
  }
}

std::string place_words(int node, int home) {
  if (node == home) return "here";
  return node == kNoPlace ? "on an unknown node" : fmt::format("on node {}", node);
}

void add_processes(std::span<const ProcessPlace> processes, const std::map<std::string, int>& gpus, Places& places) {
  for (const ProcessPlace& process : processes) {
    const auto most = std::max_element(process.shares.begin(), process.shares.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    const int home = most == process.shares.end() ? kNoPlace : most->first;
    std::vector<std::string> words;
    if (home != kNoPlace) words.push_back(fmt::format("{:.0f} % of its time", 100 * most->second));
    double all = 0;
    for (const auto& [node, bytes] : process.bytes) all += bytes;
    std::vector<std::string> memory;
    for (const auto& [node, bytes] : process.bytes) {
      if (bytes >= kWorthAWord * all && bytes > 0) {
        memory.push_back(fmt::format("{} {}", quantity(bytes, "bytes"), place_words(node, home)));
      }
    }
    if (!memory.empty()) words.push_back("memory " + joined(memory, ", "));
    for (const std::string& gpu : process.gpus) {
      const auto node = gpus.find(gpu);
      words.push_back(fmt::format("{} {}", gpu, place_words(node == gpus.end() ? kNoPlace : node->second, home)));
    }
    places[home].processes.push_back(words.empty() ? process.name
                                                   : fmt::format("{} ({})", process.name, joined(words, "; ")));
  }
}

void add_cpus(const NumaLayout& layout, std::string_view job_cpus, Places& places) {
  std::map<int, std::vector<int>> all;
  std::map<int, std::vector<int>> of_job;
  for (const auto& [cpu, node] : layout.node_of_cpu) all[node].push_back(cpu);
  for (const int cpu : parse_cpu_list(job_cpus)) {
    const auto place = layout.node_of_cpu.find(cpu);
    if (place != layout.node_of_cpu.end()) of_job[place->second].push_back(cpu);
  }
  for (const auto& [node, cpus] : all) places[node].cpus = format_cpu_list(cpus);
  for (const auto& [node, cpus] : of_job) places[node].job_cpus = format_cpu_list(cpus);
}

void cut_short(std::vector<std::string>& words) {
  if (words.size() <= kMostInPlace) return;
  const std::size_t more = words.size() - kMostInPlace;
  words.resize(kMostInPlace);
  words.push_back(fmt::format("and {} more", more));
}

}  // namespace

std::vector<ProcessPlace> process_places(const Telemetry& telemetry, const NumaLayout& layout) {
  std::map<std::string, ProcessPlace> places;
  std::map<std::string, double> looks;
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    const Channel& channel = telemetry.channels[i];
    if (channel.metric != "process.last_cpu" || places.size() >= kMostProcesses) continue;
    ProcessPlace& place = places[channel.instance];
    double& seen = looks[channel.instance];
    for (const double cpu : telemetry.series(i)) {
      const auto node = layout.node_of(cpu);
      if (!node) continue;
      place.shares[*node] += 1;
      seen += 1;
    }
  }
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    const Channel& channel = telemetry.channels[i];
    const bool memory = channel.metric == "process.numa_bytes";
    const std::size_t slash = channel.instance.rfind('/');
    if ((!memory && channel.metric != "process.gpu_memory") || slash == std::string::npos) continue;
    const auto process = places.find(channel.instance.substr(0, slash));
    const PresentValues held = present_values(telemetry.series(i));
    if (process == places.end() || held.present == 0) continue;
    const auto node = numa_node_in(channel.instance);
    if (memory && node) process->second.bytes[*node] += held.mean();
    std::vector<std::string>& gpus = process->second.gpus;
    if (!memory && gpus.size() < kMostGpus) gpus.push_back(channel.instance.substr(slash + 1));
  }
  std::vector<ProcessPlace> list;
  list.reserve(places.size());
  for (auto& [name, place] : places) {
    place.name = name;
    for (auto& [node, share] : place.shares) share /= looks[name];
    list.push_back(std::move(place));
  }
  return list;
}

LocalityMap locality_map(const Snapshot& begin, const Snapshot& end, std::span<const ProcessPlace> processes) {
  const Facts facts(begin, end);
  const std::string job_cpus = facts.value("job.cpus_allowed");
  const NumaLayout layout = numa_layout(facts.all(), job_cpus);
  LocalityMap map;
  if (layout.nodes.size() < 2) {
    map.note = layout.nodes.empty() ? "not known: the kernel does not report the cpus of the NUMA nodes"
                                    : "one NUMA node: all devices and all memory are equally near to every cpu";
    return map;
  }
  Places places;
  add_cpus(layout, job_cpus, places);
  const std::map<std::string, int> gpus = add_gpus(facts, places);
  add_networks(facts, places);
  add_interrupts(facts, layout, places);
  add_processes(processes, gpus, places);
  map.places.reserve(places.size());
  for (auto& [node, place] : places) {
    if (node != kNoPlace) place.numa = node;
    for (auto* words : {&place.gpus, &place.networks, &place.interrupts}) cut_short(*words);
    map.places.push_back(std::move(place));
  }
  return map;
}

}  // namespace reveal
