// What the memory manager did on each NUMA node, where there are several: which one reclaims, refaults and is written
// back, and which way pages migrate.
#include <algorithm>
#include <array>

#include "core/root/key_index.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::string_view kNodes = "/sys/devices/system/node";

// The rest of the text is levels that meminfo of the node says, and what numastat says.
constexpr MetricHelp kEvents[] = {
    {"numa_vm.nr_dirtied", "Pages made dirty."},
    {"numa_vm.nr_written", "Pages written back."},
    {"numa_vm.nr_throttled_written", "Pages written back while reclaim waited for them."},
    {"numa_vm.nr_vmscan_write", "Pages written by reclaim itself."},
    {"numa_vm.nr_vmscan_immediate_reclaim", "Pages reclaimed as soon as they were written."},
    {"numa_vm.workingset_refault_anon", "Pages read back soon after they were swapped out."},
    {"numa_vm.workingset_refault_file", "Pages of files read back soon after they were dropped."},
    {"numa_vm.workingset_activate_anon", "Of the refaults, such of a working set in use."},
    {"numa_vm.workingset_activate_file", "Of the refaults, such of a working set in use."},
    {"numa_vm.pgpromote_success", "Pages moved up to a faster node."},
    {"numa_vm.pgpromote_candidate", "Pages that were candidates for it."},
    {"numa_vm.pgdemote_kswapd", "Pages moved down to a slower node in the background."},
    {"numa_vm.pgdemote_direct", "Pages moved down while an allocation waited."},
    {"numa_vm.pgscan_kswapd", "Pages looked at by reclaim in the background."},
    {"numa_vm.pgscan_direct", "Pages looked at by reclaim while an allocation waited."},
    {"numa_vm.pgsteal_kswapd", "Pages reclaimed in the background."},
    {"numa_vm.pgsteal_direct", "Pages reclaimed while an allocation waited."},
};
constexpr std::string_view kPrefix = "numa_vm.";
constexpr FamilyTable kFamilies[] = {{"memory/numa_vmstat", Kind::counter, Unit::count, Scope::numa, Subsystem::memory,
                                      "Events of the memory manager on each NUMA node",
                                      "/sys/devices/system/node/node*/vmstat", kEvents}};

bool is_wanted(std::string_view key) noexcept {
  return std::any_of(std::begin(kEvents), std::end(kEvents),
                     [key](const MetricHelp& metric) { return metric.name.substr(kPrefix.size()) == key; });
}

class NumaVmstatProbe final : public Probe {
 public:
  explicit NumaVmstatProbe(const ProbeContext& context) {
    for (const std::string& name : context.fs.list(kNodes)) {
      if (!name.starts_with("node") || !parse_int(name.substr(4))) continue;
      Node node;
      node.name = name;
      node.file = context.fs.open(std::string(kNodes) + '/' + name + "/vmstat");
      if (!node.file.read().empty()) nodes_.push_back(std::move(node));
    }
    if (nodes_.size() < 2) throw Unavailable("with one NUMA node, /proc/vmstat says the same (probe vmstat)");
    family_ = &context.family(kFamilies[0]);
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
    const std::string_view key = cut_word(line);
    std::int64_t value = 0;
    if (key.empty() || !parse_counter(cut_word(line), value)) return;
    std::size_t number = node.keys.find(key);
    if (number == KeyIndex::kUnknown) {
      number = node.keys.add(key);
      const bool wanted = is_wanted(key);
      node.channels.push_back(wanted ? family_->add(std::string(kPrefix) + std::string(key), node.name)
                                     : Family::kNoChannel);
    }
    family_->set(node.channels[number], value);
  }

  std::vector<Node> nodes_;
  Family* family_ = nullptr;
};

std::unique_ptr<Probe> open_numa_vmstat(const ProbeContext& context) {
  return std::make_unique<NumaVmstatProbe>(context);
}

const RegisteredProbe entry{{.name = "numa_vmstat",
                             .help = "Reclaim, writeback and migration of each NUMA node",
                             .period = 1s,
                             .families = kFamilies,
                             .open = open_numa_vmstat,
                             .remedy = "nothing is lost on a machine with one NUMA node"}};

}  // namespace
}  // namespace reveal
