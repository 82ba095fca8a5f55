// /proc/vmstat: the memory manager's work (events) and stock (levels).
// https://man7.org/linux/man-pages/man5/proc_vmstat.5.html
#include <algorithm>
#include <array>

#include "core/kernel_text/key_index.h"
#include "core/sampler/diffed_text.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::vmstat {
namespace {

constexpr MetricHelp kEvents[] = {{"vmstat.<key>", "Events since boot: pgfault, pgpgin, nr_dirtied, numa_hit, ..."}};
constexpr MetricHelp kLevels[] = {{"vmstat.<key>", "Pages now: nr_dirty, nr_writeback, nr_dirty_threshold, ..."}};

constexpr FamilyTable kFamilies[] = {
    {"memory/vmstat", Kind::counter, Unit::count, Scope::node, Subsystem::memory, "Events of the memory manager",
     "/proc/vmstat", kEvents},
    {"memory/vmstat_levels", Kind::gauge, Unit::count, Scope::node, Subsystem::memory, "Pages by state", "/proc/vmstat",
     kLevels},
};

// nr_* are levels, everything else counts events; these are the exceptions.
constexpr std::array<std::string_view, 10> kCountingNr = {"nr_dirtied",           "nr_written",
                                                          "nr_vmscan_write",      "nr_vmscan_immediate_reclaim",
                                                          "nr_throttled_written", "nr_foll_pin_acquired",
                                                          "nr_foll_pin_released", "nr_migrate_reclaimed",
                                                          "nr_tlb_remote_flush",  "nr_tlb_remote_flush_received"};
constexpr std::array<std::string_view, 1> kOtherLevels = {"workingset_nodes"};

bool is_level(std::string_view key) noexcept {
  if (std::find(kOtherLevels.begin(), kOtherLevels.end(), key) != kOtherLevels.end()) return true;
  if (key.substr(0, 3) != "nr_") return false;
  return std::find(kCountingNr.begin(), kCountingNr.end(), key) == kCountingNr.end();
}

class VmstatProbe final : public Probe {
 public:
  VmstatProbe(const ProbeContext& context, KernelFile file)
      : file_(std::move(file)), events_(context.family(kFamilies[0])), levels_(context.family(kFamilies[1])) {}

  void sample() noexcept override {
    if (!text_.update(file_.read())) parse();
    events_.commit();
    levels_.commit();
  }

 private:
  void parse() {
    events_.begin();
    levels_.begin();
    keys_.rewind();
    std::string_view rest = text_.parse();
    std::string_view line;
    while (next_line(rest, line)) {
      const std::string_view key = cut_word(line);
      const std::string_view word = cut_word(line);
      std::int64_t value = 0;
      if (key.empty() || !parse_counter(word, value)) continue;
      std::size_t number = keys_.find(key);
      if (number == KeyIndex::kUnknown) {
        number = keys_.add(key);
        Family& family = is_level(key) ? levels_ : events_;
        places_.push_back({&family, family.add("vmstat." + std::string(key))});
      }
      text_.set(word, *places_[number].family, places_[number].channel);
    }
  }

  struct Place {
    Family* family;
    std::int32_t channel;
  };
  KernelFile file_;
  DiffedText text_;
  Family& events_;
  Family& levels_;
  KeyIndex keys_;
  std::vector<Place> places_;
};

std::unique_ptr<Probe> open_vmstat(const ProbeContext& context) {
  return std::make_unique<VmstatProbe>(context,
                                       context.fs.require("/proc/vmstat", "the memory manager cannot be observed"));
}

const RegisteredProbe entry{{.name = "vmstat",
                             .help = "Faults, reclaim, writeback, compaction, NUMA balancing",
                             .families = kFamilies,
                             .open = open_vmstat}};

}  // namespace
}  // namespace reveal::probe::vmstat
