// How free memory is cut up, and how near each zone is to its watermarks: below "low" the kernel begins to reclaim, at
// "min" the process that allocates must reclaim itself; a huge page needs a free block of its size.
// https://man7.org/linux/man-pages/man5/proc_buddyinfo.5.html
#include <algorithm>
#include <array>

#include "core/kernel_text/key_index.h"
#include "core/sampler/diffed_text.h"
#include "core/sampler/pace.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::free_memory {
namespace {

constexpr MetricHelp kBlocks[] = {
    {"free_blocks.order<n>", "Free blocks of 2^n pages of a zone (instance \"node0/Normal\"); 2 MiB are order 9."},
};
constexpr MetricHelp kPages[] = {
    {"zone.free", "Free pages of a zone."},
    {"zone.low", "Free pages below which the kernel reclaims in the background."},
    {"zone.min", "Free pages below which allocations reclaim memory themselves."},
    {"zone.high", "Free pages at which background reclaim stops."},
    {"zone.boost", "Pages added to the watermarks while memory is fragmented."},
    {"zone.zone_write_pending", "Pages of the zone that wait to be written or are being written."},
    {"zone.<key>", "Other counters of a zone, without nr_: zone_inactive_anon, mlock, free_cma."},
};
constexpr FamilyTable kBlockFamilies[] = {{"memory/free_blocks", Kind::gauge, Unit::count, Scope::numa,
                                           Subsystem::memory, "Free blocks of memory by size", "/proc/buddyinfo",
                                           kBlocks}};
constexpr FamilyTable kZoneFamilies[] = {{"memory/zones", Kind::gauge, Unit::count, Scope::numa, Subsystem::memory,
                                          "Pages and watermarks of each zone", "/proc/zoneinfo", kPages}};

/// "Node 0, zone   Normal ...": "node0/Normal", and the rest; "" if it is no such line.
std::string cut_zone(std::string_view& line) {
  if (cut_word(line) != "Node") return "";
  std::string_view node = cut_word(line);
  if (node.empty() || node.back() != ',' || cut_word(line) != "zone") return "";
  node.remove_suffix(1);
  const std::string_view zone = cut_word(line);
  return zone.empty() ? "" : "node" + std::string(node) + '/' + std::string(zone);
}

class FreeBlocksProbe final : public Probe {
 public:
  FreeBlocksProbe(const ProbeContext& context, KernelFile file)
      : file_(std::move(file)), blocks_(context.family(kBlockFamilies[0])) {}

  void sample() noexcept override {
    if (!text_.update(file_.read())) parse();
    blocks_.commit();
  }

 private:
  void parse() {
    blocks_.begin();
    keys_.rewind();
    std::string_view rest = text_.parse();
    std::string_view line;
    while (next_line(rest, line)) {
      const std::string zone = cut_zone(line);
      if (zone.empty()) continue;
      int order = 0;
      for (std::string_view word = cut_word(line); !word.empty(); word = cut_word(line), ++order) {
        std::int64_t value = 0;
        if (!parse_counter(word, value)) break;
        name_.assign(zone).append(1, ' ').append(std::to_string(order));
        std::size_t number = keys_.find(name_);
        if (number == KeyIndex::kUnknown) {
          number = keys_.add(name_);
          channels_.push_back(blocks_.add("free_blocks.order" + std::to_string(order), zone));
        }
        text_.set(word, blocks_, channels_[number]);
      }
    }
  }

  KernelFile file_;
  DiffedText text_;
  Family& blocks_;
  std::string name_;  // "node0/Normal 9"; kept, so that nothing is allocated
  KeyIndex keys_;
  std::vector<std::int32_t> channels_;
};

class ZonesProbe final : public Probe {
 public:
  ZonesProbe(const ProbeContext& context, KernelFile file)
      : file_(std::move(file)), pages_(context.family(kZoneFamilies[0])) {}

  void sample() noexcept override {
    parse(file_.read());  // the lists of each cpu change always: there is nothing to compare
    pages_.commit();
  }

 private:
  // The node's levels are in its own vmstat and numastat; the rest never changes.
  static constexpr std::array<std::string_view, 6> kLeftOut = {"spanned", "present",       "managed",
                                                               "cma",     "nr_free_pages", "nr_free_pages_blocks"};

  /// "Node 0, zone Normal", the node's own section (of its first zone), "pages free 1", "min 2", ..., "nr_mlock 3",
  /// ..., the lists of each cpu.
  void parse(std::string_view rest) {
    pages_.begin();
    keys_.rewind();
    std::string_view line;
    std::string zone;
    bool wanted = false;
    while (next_line(rest, line)) {
      std::string_view words = line;
      if (std::string begun = cut_zone(words); !begun.empty()) {
        zone = std::move(begun);
        wanted = false;
        continue;
      }
      words = line;
      std::string_view key = cut_word(words);
      if (key == "pages") {
        key = cut_word(words);
        wanted = !zone.empty();
      }
      wanted = wanted && key != "pagesets";
      const std::string_view word = cut_word(words);
      std::int64_t value = 0;
      if (!wanted || key.starts_with("numa_") || !parse_counter(word, value)) {
        continue;
      }
      store(zone, key, value);
    }
  }

  void store(const std::string& zone, std::string_view key, std::int64_t value) {
    name_.assign(zone).append(1, ' ').append(key);
    std::size_t number = keys_.find(name_);
    if (number == KeyIndex::kUnknown) {
      number = keys_.add(name_);
      const bool left_out = std::find(kLeftOut.begin(), kLeftOut.end(), key) != kLeftOut.end();
      const std::string_view own = key.starts_with("nr_") ? key.substr(3) : key;
      channels_.push_back(left_out ? Family::kNoChannel : pages_.add("zone." + std::string(own), zone));
    }
    pages_.set(channels_[number], value);
  }

  KernelFile file_;
  Family& pages_;
  std::string name_;  // "node0/Normal min"
  KeyIndex keys_;
  std::vector<std::int32_t> channels_;
};

std::unique_ptr<Probe> open_free_blocks(const ProbeContext& context) {
  return std::make_unique<FreeBlocksProbe>(
      context, context.fs.require("/proc/buddyinfo", "the fragmentation of free memory cannot be read"));
}

std::unique_ptr<Probe> open_zones(const ProbeContext& context) {
  return std::make_unique<ZonesProbe>(
      context, context.fs.require("/proc/zoneinfo", "the watermarks of free memory cannot be read"));
}

/// Every zone has a few lines for each cpu, and the text has many other lines.
std::chrono::nanoseconds period_on(const Host& host) {
  constexpr auto kCostPerCpu = 2us;
  return std::max<std::chrono::nanoseconds>(1s, paced(host.cpus_online.size(), kCostPerCpu, kShareOfACore / 3));
}

const RegisteredProbe blocks{{.name = "free_blocks",
                              .help = "Free memory by block size: shows whether huge pages can be allocated",
                              .families = kBlockFamilies,
                              .open = open_free_blocks}};
const RegisteredProbe zones{{.name = "zones",
                             .help = "Free memory of each zone against its watermarks",
                             .families = kZoneFamilies,
                             .open = open_zones,
                             .period_on = period_on}};

}  // namespace
}  // namespace reveal::probe::free_memory
