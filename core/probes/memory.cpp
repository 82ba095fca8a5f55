// /proc/meminfo: levels of memory in bytes, and of huge pages in pages.
// https://docs.kernel.org/filesystems/proc.html#meminfo
#include "core/kernel_text/key_index.h"
#include "core/probes/metric_name.h"
#include "core/sampler/diffed_text.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::memory {
namespace {

// Names for keys the rule of snake_case() would spoil.
struct Name {
  std::string_view key;
  std::string_view metric;
};
constexpr Name kNames[] = {
    {"MemTotal", "mem.total"},
    {"MemFree", "mem.free"},
    {"MemAvailable", "mem.available"},
    {"KReclaimable", "mem.kernel_reclaimable"},
    {"SReclaimable", "mem.slab_reclaimable"},
    {"SUnreclaim", "mem.slab_unreclaimable"},
    {"NFS_Unstable", "mem.nfs_unstable"},
    {"Committed_AS", "mem.committed"},
    {"DirectMap4k", "mem.direct_map_4k"},
    {"DirectMap2M", "mem.direct_map_2m"},
    {"DirectMap1G", "mem.direct_map_1g"},
    {"DirectMap4M", "mem.direct_map_4m"},
    {"Hugepagesize", "mem.hugepage_size"},
    {"Hugetlb", "mem.hugetlb"},
};

constexpr MetricHelp kLevels[] = {
    {"mem.free", "Unused memory."},
    {"mem.available", "Memory available to new programs without swapping."},
    {"mem.buffers", "Cache of block devices."},
    {"mem.cached", "Page cache."},
    {"mem.dirty", "Page cache waiting to be written."},
    {"mem.writeback", "Page cache being written."},
    {"mem.anon_pages", "Memory of processes that is not backed by a file."},
    {"mem.slab", "Kernel objects."},
    {"mem.<key>", "Every other line of the kernel's text."},
};
constexpr MetricHelp kHugePages[] = {
    {"mem.hugepages_<key>", "Huge pages of the default size: total, free, rsvd, surp."}};

constexpr FamilyTable kFamilies[] = {
    {"memory/meminfo", Kind::gauge, Unit::bytes, Scope::node, Subsystem::memory, "Memory by use", "/proc/meminfo",
     kLevels},
    {"memory/hugepages", Kind::gauge, Unit::count, Scope::node, Subsystem::memory, "Huge pages of the default size",
     "/proc/meminfo", kHugePages},
};

std::string metric_of(std::string_view key) {
  for (const Name& name : kNames) {
    if (name.key == key) return std::string(name.metric);
  }
  if (key.substr(0, 10) == "HugePages_") return "mem.hugepages_" + snake_case(key.substr(10));
  return "mem." + snake_case(key);
}

class MemoryProbe final : public Probe {
 public:
  MemoryProbe(const ProbeContext& context, KernelFile file)
      : file_(std::move(file)), bytes_(context.family(kFamilies[0])), pages_(context.family(kFamilies[1])) {}

  void sample() noexcept override {
    if (!text_.update(file_.read())) parse();
    bytes_.commit();
    pages_.commit();
  }

 private:
  void parse() {
    bytes_.begin();
    pages_.begin();
    keys_.rewind();
    std::string_view rest = text_.parse();
    std::string_view line;
    while (next_line(rest, line)) parse_line(line);
  }

  void parse_line(std::string_view line) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) return;
    const std::string_view key = line.substr(0, colon);
    line.remove_prefix(colon + 1);
    const std::string_view word = cut_word(line);
    std::int64_t value = 0;
    if (!parse_counter(word, value)) return;
    const bool kib = cut_word(line) == "kB";
    std::size_t number = keys_.find(key);
    if (number == KeyIndex::kUnknown) {
      number = keys_.add(key);
      channels_.push_back((kib ? bytes_ : pages_).add(metric_of(key)));
      in_bytes_.push_back(kib);
    }
    if (in_bytes_[number] != kib) return;
    text_.set(word, kib ? bytes_ : pages_, channels_[number], kib ? 1024 : 1);
  }

  KernelFile file_;
  DiffedText text_;
  Family& bytes_;
  Family& pages_;
  KeyIndex keys_;
  std::vector<std::int32_t> channels_;
  std::vector<bool> in_bytes_;
};

std::unique_ptr<Probe> open_memory(const ProbeContext& context) {
  return std::make_unique<MemoryProbe>(context, context.fs.require("/proc/meminfo", "memory cannot be read"));
}

const RegisteredProbe entry{{.name = "memory",
                             .help = "Memory by use: free, cached, dirty, writeback, huge pages",
                             .families = kFamilies,
                             .open = open_memory}};

}  // namespace
}  // namespace reveal::probe::memory
