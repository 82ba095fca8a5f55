// Each NUMA node's allocations and memory.
#include "core/probes/metric_name.h"
#include "core/root/key_index.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::string_view kNodes = "/sys/devices/system/node";

constexpr MetricHelp kPages[] = {
    {"numa_hit", "Pages allocated on the node they were meant for."},
    {"numa_miss", "Pages allocated here though another node was meant."},
    {"numa_foreign", "Pages meant for this node but allocated elsewhere."},
    {"numa_<key>", "interleave_hit, local_node, other_node."},
};
constexpr MetricHelp kMemory[] = {{"numa_mem.<key>", "Memory of this node by use: free, used, file_pages, ..."}};

constexpr FamilyTable kPageFamilies[] = {{"memory/numa_pages", Kind::counter, Unit::count, Scope::numa,
                                          Subsystem::memory, "Page allocations of each NUMA node",
                                          "/sys/devices/system/node/node*/numastat", kPages}};
constexpr FamilyTable kMemoryFamilies[] = {{"memory/numa_meminfo", Kind::gauge, Unit::bytes, Scope::numa,
                                            Subsystem::memory, "Memory of each NUMA node by use",
                                            "/sys/devices/system/node/node*/meminfo", kMemory}};

std::string pages_metric(std::string_view key) {
  return key.substr(0, 5) == "numa_" ? std::string(key) : "numa_" + std::string(key);
}

std::string memory_metric(std::string_view key) {
  return "numa_mem." + snake_case(key.substr(0, 3) == "Mem" ? key.substr(3) : key);
}

// Both files have lines of a key and a number; meminfo's begin with "Node 0" and its key ends in a colon.
class NumaProbe final : public Probe {
 public:
  using MetricOf = std::string (*)(std::string_view key);

  NumaProbe(const ProbeContext& context, const FamilyTable& table, std::string_view file, MetricOf metric_of)
      : metric_of_(metric_of) {
    for (const std::string& name : context.fs.list(kNodes)) {
      if (name.substr(0, 4) != "node" || !parse_int(std::string_view(name).substr(4))) continue;
      Node node;
      node.name = name;
      node.file = context.fs.open(std::string(kNodes) + '/' + name + '/' + std::string(file));
      if (!node.file.read().empty()) nodes_.push_back(std::move(node));
    }
    if (nodes_.empty()) throw Unavailable("this kernel reports no NUMA nodes");
    family_ = &context.family(table);
  }

  void sample() noexcept override {
    family_->begin();
    for (Node& node : nodes_) {
      node.keys.rewind();
      std::string_view rest = node.file.read();
      std::string_view line;
      while (next_line(rest, line)) parse_line(node, line);
    }
    family_->commit();
  }

 private:
  struct Node {
    std::string name;
    KernelFile file;
    KeyIndex keys;
    std::vector<std::int32_t> channels;
  };

  void parse_line(Node& node, std::string_view line) {
    std::string_view key = cut_word(line);
    if (key == "Node") {
      skip_words(line, 1);
      key = cut_word(line);
    }
    if (!key.empty() && key.back() == ':') key.remove_suffix(1);
    std::int64_t value = 0;
    if (key.empty() || !parse_counter(cut_word(line), value)) return;
    const bool kib = cut_word(line) == "kB";
    const bool bytes = family_->spec().unit == Unit::bytes;
    if (bytes != kib) return;  // huge pages are counted, not measured
    std::size_t number = node.keys.find(key);
    if (number == KeyIndex::kUnknown) {
      number = node.keys.add(key);
      node.channels.push_back(family_->add(metric_of_(key), node.name));
    }
    family_->set(node.channels[number], kib ? value * 1024 : value);
  }

  MetricOf metric_of_;
  Family* family_ = nullptr;
  std::vector<Node> nodes_;
};

std::unique_ptr<Probe> open_pages(const ProbeContext& context) {
  return std::make_unique<NumaProbe>(context, kPageFamilies[0], "numastat", pages_metric);
}

std::unique_ptr<Probe> open_memory(const ProbeContext& context) {
  return std::make_unique<NumaProbe>(context, kMemoryFamilies[0], "meminfo", memory_metric);
}

const RegisteredProbe pages{
    {.name = "numa",
     .help = "Page allocations of each NUMA node, local and remote",
     .families = kPageFamilies,
     .open = open_pages,
     .remedy = "a machine with one NUMA node may have none; else a kernel built with CONFIG_NUMA"}};
const RegisteredProbe memory{
    {.name = "numa_memory",
     .help = "Memory of each NUMA node by use",
     .period = 1s,
     .families = kMemoryFamilies,
     .open = open_memory,
     .remedy = "a machine with one NUMA node may have none; else a kernel built with CONFIG_NUMA"}};

}  // namespace
}  // namespace reveal
