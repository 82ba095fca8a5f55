// Each NUMA node's allocations, memory, and the memory manager's work there.
// https://docs.kernel.org/admin-guide/numastat.html
#include <algorithm>

#include "core/kernel_text/key_index.h"
#include "core/probes/metric_name.h"
#include "core/sampler/diffed_text.h"
#include "core/sampler/pace.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::numa {
namespace {

constexpr std::string_view kNodes = "/sys/devices/system/node";

constexpr MetricHelp kPages[] = {
    {"numa_hit", "Pages allocated on the intended node."},
    {"numa_miss", "Pages allocated here although another node was intended."},
    {"numa_foreign", "Pages intended for this node but allocated on another."},
    {"numa_<key>", "interleave_hit, local_node, other_node."},
};
constexpr MetricHelp kMemory[] = {{"numa_mem.<key>", "Memory of this node by use: free, used, file_pages, ..."}};
// The rest of the text is in meminfo and in numastat of the node.
constexpr MetricHelp kEvents[] = {
    {"numa_vm.nr_dirtied", "Pages made dirty."},
    {"numa_vm.nr_written", "Pages written back."},
    {"numa_vm.nr_throttled_written", "Pages written back while reclaim waited for them."},
    {"numa_vm.nr_vmscan_write", "Pages written by reclaim itself."},
    {"numa_vm.nr_vmscan_immediate_reclaim", "Pages reclaimed as soon as they were written."},
    {"numa_vm.workingset_refault_anon", "Pages read back soon after they were swapped out."},
    {"numa_vm.workingset_refault_file", "Pages of files read back soon after they were dropped."},
    {"numa_vm.workingset_activate_anon", "Refaulted pages that belong to an active working set."},
    {"numa_vm.workingset_activate_file", "Refaulted pages that belong to an active working set."},
    {"numa_vm.pgpromote_success", "Pages moved up to a faster node."},
    {"numa_vm.pgpromote_candidate", "Pages that were candidates for such a move."},
    {"numa_vm.pgdemote_kswapd", "Pages moved down to a slower node in the background."},
    {"numa_vm.pgdemote_direct", "Pages moved down while an allocation waited."},
    {"numa_vm.pgscan_kswapd", "Pages scanned by background reclaim."},
    {"numa_vm.pgscan_direct", "Pages scanned by reclaim while an allocation waited."},
    {"numa_vm.pgsteal_kswapd", "Pages reclaimed in the background."},
    {"numa_vm.pgsteal_direct", "Pages reclaimed while an allocation waited."},
};

constexpr FamilyTable kPageFamilies[] = {{"memory/numa_pages", Kind::counter, Unit::count, Scope::numa,
                                          Subsystem::memory, "Page allocations of each NUMA node",
                                          "/sys/devices/system/node/node*/numastat", kPages}};
constexpr FamilyTable kMemoryFamilies[] = {{"memory/numa_meminfo", Kind::gauge, Unit::bytes, Scope::numa,
                                            Subsystem::memory, "Memory of each NUMA node by use",
                                            "/sys/devices/system/node/node*/meminfo", kMemory}};
constexpr FamilyTable kEventFamilies[] = {{"memory/numa_vmstat", Kind::counter, Unit::count, Scope::numa,
                                           Subsystem::memory, "Events of the memory manager on each NUMA node",
                                           "/sys/devices/system/node/node*/vmstat", kEvents}};

std::string pages_metric(std::string_view key) {
  return key.substr(0, 5) == "numa_" ? std::string(key) : "numa_" + std::string(key);
}

std::string memory_metric(std::string_view key) {
  return "numa_mem." + snake_case(key.substr(0, 3) == "Mem" ? key.substr(3) : key);
}

std::string event_metric(std::string_view key) {
  std::string metric = "numa_vm." + std::string(key);
  const bool wanted = std::any_of(std::begin(kEvents), std::end(kEvents),
                                  [&metric](const MetricHelp& known) { return known.name == metric; });
  return wanted ? metric : "";
}

/// A text of each node. All have lines of a key and a number; meminfo's begin with "Node 0" and its keys end in a
/// colon.
struct NodeText {
  const FamilyTable* table;
  std::string_view file;
  std::string (*metric_of)(std::string_view key);  // "": skipped
  std::size_t least_nodes;
  std::string_view absent;  // why, with fewer
};
constexpr std::string_view kNoNodes = "this kernel reports no NUMA nodes";
constexpr NodeText kPageText{&kPageFamilies[0], "numastat", pages_metric, 1, kNoNodes};
constexpr NodeText kMemoryText{&kMemoryFamilies[0], "meminfo", memory_metric, 1, kNoNodes};
constexpr NodeText kEventText{&kEventFamilies[0], "vmstat", event_metric, 2,
                              "with one NUMA node, /proc/vmstat has the same numbers (probe vmstat)"};

class NumaProbe final : public Probe {
 public:
  NumaProbe(const ProbeContext& context, const NodeText& text) : text_(text) {
    for (const std::string& name : context.fs.list(kNodes)) {
      if (!name.starts_with("node") || !parse_int(std::string_view(name).substr(4))) continue;
      Node node;
      node.name = name;
      node.file = context.fs.open(std::string(kNodes) + '/' + name + '/' + std::string(text.file));
      if (!node.file.read().empty()) nodes_.push_back(std::move(node));
    }
    if (nodes_.size() < text.least_nodes) throw Unavailable(std::string(text.absent));
    family_ = &context.family(*text.table);
  }

  void sample() noexcept override {
    if (!update_all(nodes_)) parse();
    family_->commit();
  }

 private:
  struct Node {
    std::string name;
    KernelFile file;
    DiffedText text;
    KeyedValues<std::int32_t> channels;
  };

  void parse() {
    family_->begin();
    for (Node& node : nodes_) {
      node.channels.rewind();
      std::string_view rest = node.text.parse();
      std::string_view line;
      while (next_line(rest, line)) parse_line(node, line);
    }
  }

  void parse_line(Node& node, std::string_view line) {
    std::string_view key = cut_word(line);
    if (key == "Node") {
      skip_words(line, 1);
      key = cut_word(line);
    }
    if (!key.empty() && key.back() == ':') key.remove_suffix(1);
    const std::string_view word = cut_word(line);
    std::int64_t value = 0;
    if (key.empty() || !parse_counter(word, value)) return;
    const bool kib = cut_word(line) == "kB";
    const bool bytes = family_->spec().unit == Unit::bytes;
    if (bytes != kib) return;  // huge pages are counted, not measured
    const std::int32_t channel = node.channels.at(key, [&] {
      const std::string metric = text_.metric_of(key);
      return metric.empty() ? Family::kNoChannel : family_->add(metric, node.name);
    });
    node.text.set(word, *family_, channel, kib ? 1024 : 1);
  }

  const NodeText& text_;
  Family* family_ = nullptr;
  std::vector<Node> nodes_;
};

template <const NodeText& text>
std::unique_ptr<Probe> open_text(const ProbeContext& context) {
  return std::make_unique<NumaProbe>(context, text);
}

/// Larger hosts have more nodes, of some 48 cpus each.
std::chrono::nanoseconds memory_period(const Host& host) {
  constexpr auto kCostPerCpu = 150ns;
  return paced(host.cpus_online.size(), kCostPerCpu, kShareOfACore / 10);
}

constexpr std::string_view kRemedy = "a machine with one NUMA node may have none; else a kernel built with CONFIG_NUMA";

const RegisteredProbe pages{{.name = "numa",
                             .help = "Page allocations of each NUMA node, local and remote",
                             .families = kPageFamilies,
                             .open = open_text<kPageText>,
                             .remedy = kRemedy}};
const RegisteredProbe memory{{.name = "numa_memory",
                              .help = "Memory of each NUMA node by use",
                              .families = kMemoryFamilies,
                              .open = open_text<kMemoryText>,
                              .period_on = memory_period,
                              .remedy = kRemedy}};
const RegisteredProbe events{{.name = "numa_vmstat",
                              .help = "Reclaim, writeback and migration of each NUMA node",
                              .period = 1s,
                              .families = kEventFamilies,
                              .open = open_text<kEventText>,
                              .remedy = "not needed on a machine with one NUMA node"}};

}  // namespace
}  // namespace reveal::probe::numa
