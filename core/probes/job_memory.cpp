// memory.stat of the job's control group, version 1 or 2: the composition of the job's memory, and the kernel's work
// for it. Reclaim and refaults show that the limit, not the program, decides how fast it runs. And memory.numa_stat: on
// which NUMA nodes it lies.
// https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
#include <algorithm>
#include <array>

#include "core/job/cgroup.h"
#include "core/kernel_text/key_index.h"
#include "core/sampler/diffed_text.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::job_memory {
namespace {

constexpr MetricHelp kMemory[] = {
    {"cgroup.memory_anon", "Memory of the job that is not backed by a file."},
    {"cgroup.memory_file", "Page cache charged to the job."},
    {"cgroup.memory_dirty", "Page cache of the job waiting to be written."},
    {"cgroup.memory_writeback", "Page cache of the job being written."},
    {"memory_stat.<key>", "Every other line with an amount, with its name of cgroup version 2."},
};
constexpr MetricHelp kEvents[] = {
    {"cgroup.page_faults", "Page faults of the job."},
    {"cgroup.major_page_faults", "Page faults of the job that needed a read from storage."},
    {"memory_stat.workingset_refault_file", "Page cache of the job that was dropped and soon read again."},
    {"memory_stat.pgscan", "Pages scanned by reclaim."},
    {"memory_stat.<key>", "Every other line with a counter."},
};
constexpr MetricHelp kPlaces[] = {
    {"memory_numa.anon", "Memory of the job on a NUMA node that is not backed by a file."},
    {"memory_numa.file", "Page cache charged to the job on a NUMA node."},
    {"memory_numa.<key>", "Every other line of memory.numa_stat with an amount."},
};
constexpr FamilyTable kFamilies[] = {
    {"job/memory", Kind::gauge, Unit::bytes, Scope::cgroup, Subsystem::memory, "What the job's memory is made of",
     "memory.stat", kMemory},
    {"job/memory_events", Kind::counter, Unit::count, Scope::cgroup, Subsystem::memory, "Events of the job's memory",
     "memory.stat", kEvents},
    {"job/memory_numa", Kind::gauge, Unit::bytes, Scope::numa, Subsystem::memory, "Memory of the job by NUMA node",
     "memory.numa_stat", kPlaces},
};

// Metrics with a name of their own, and keys with another name in version 1.
struct Name {
  std::string_view key;
  std::string_view metric;
};
constexpr std::array kNames = {
    Name{"anon", "cgroup.memory_anon"},
    Name{"rss", "cgroup.memory_anon"},
    Name{"file", "cgroup.memory_file"},
    Name{"cache", "cgroup.memory_file"},
    Name{"file_dirty", "cgroup.memory_dirty"},
    Name{"dirty", "cgroup.memory_dirty"},
    Name{"file_writeback", "cgroup.memory_writeback"},
    Name{"writeback", "cgroup.memory_writeback"},
    Name{"pgfault", "cgroup.page_faults"},
    Name{"pgmajfault", "cgroup.major_page_faults"},
    Name{"mapped_file", "memory_stat.file_mapped"},
    Name{"rss_huge", "memory_stat.anon_thp"},
};
constexpr std::string_view kOfSubgroups = "total_";             // in version 1; in version 2 they are counted in
constexpr std::string_view kNumaOfSubgroups = "hierarchical_";  // likewise, in pages
constexpr std::string_view kCounts[] = {"pg", "workingset_", "thp_", "numa_", "pswp", "swp", "zswp"};

class JobMemoryProbe final : public Probe {
 public:
  explicit JobMemoryProbe(const ProbeContext& context) {
    std::string why = "the job's processes have no memory cgroup";
    for (const Cgroup& group : cgroups_of(context.fs, *context.job)) {
      if (!group.controllers.empty() && !group.has("memory")) continue;
      std::string obstacle = why_not_the_jobs(context.fs, *context.job, group);
      if (!obstacle.empty()) {
        why = std::move(obstacle);
        continue;
      }
      file_ = context.fs.open(group.folder + "/memory.stat", 4096);
      const bool first_version = !group.controllers.empty();
      prefix_ = first_version ? kOfSubgroups : "";
      numa_prefix_ = first_version ? kNumaOfSubgroups : "";
      numa_unit_ = first_version ? context.host.page_bytes : 1;
      numa_file_ = context.fs.open(group.folder + "/memory.numa_stat", 1024);
      if (numa_file_.read().empty()) numa_file_ = KernelFile();  // a kernel without NUMA
      if (!file_.read().empty()) break;
      file_ = KernelFile();
    }
    if (!file_) throw Unavailable(why);
    memory_ = &context.family(kFamilies[0]);
    events_ = &context.family(kFamilies[1]);
    numa_ = &context.family(kFamilies[2]);
  }

  void sample() noexcept override {
    if (!text_.update(file_.read())) parse();
    if (numa_file_ && !numa_text_.update(numa_file_.read())) parse_numa();
    memory_->commit();
    events_->commit();
    if (numa_file_) numa_->commit();
  }

 private:
  struct Channel {
    Family* family = nullptr;
    std::int32_t number = Family::kNoChannel;
  };

  void parse() {
    memory_->begin();
    events_->begin();
    keys_.rewind();
    std::string_view rest = text_.parse();
    std::string_view line;
    while (next_line(rest, line)) {
      const std::string_view key = cut_word(line);
      if (!key.starts_with(prefix_)) {
        text_.ignore(line);
        continue;
      }
      const std::string_view word = cut_word(line);
      std::int64_t value = 0;
      if (key == prefix_ || !parse_counter(word, value)) continue;
      std::size_t number = keys_.find(key);
      if (number == KeyIndex::kUnknown) {
        number = keys_.add(key);
        channels_.push_back(channel_of(key.substr(prefix_.size())));
      }
      text_.set(word, *channels_[number].family, channels_[number].number);
    }
  }

  /// "anon N0=4096 N1=0", or in version 1 "hierarchical_anon=1 N0=1 N1=0"
  void parse_numa() {
    numa_->begin();
    numa_keys_.rewind();
    std::string_view rest = numa_text_.parse();
    std::string_view line;
    while (next_line(rest, line)) {
      std::string_view words = line;
      std::string_view key = cut_word(words);
      key = key.substr(0, key.find('='));
      if (!key.starts_with(numa_prefix_) || key == numa_prefix_ || counts(key)) {
        numa_text_.ignore(line);
        continue;
      }
      key.remove_prefix(numa_prefix_.size());
      numa_text_.ignore(line.substr(0, line.size() - words.size()));
      for (std::string_view word = cut_word(words); !word.empty(); word = cut_word(words)) store_numa(key, word);
    }
  }

  void store_numa(std::string_view key, std::string_view word) {
    const std::size_t equals = word.find('=');
    if (word.front() != 'N' || equals == std::string_view::npos) return;
    const std::string_view node = word.substr(1, equals - 1);
    name_.assign(key).append(1, ' ').append(node);
    std::size_t number = numa_keys_.find(name_);
    if (number == KeyIndex::kUnknown) {
      number = numa_keys_.add(name_);
      numa_channels_.push_back(numa_->add("memory_numa." + std::string(key), "node" + std::string(node), "job"));
    }
    numa_text_.set(word.substr(equals + 1), *numa_, numa_channels_[number], numa_unit_);
  }

  static bool counts(std::string_view key) {
    return std::any_of(std::begin(kCounts), std::end(kCounts),
                       [key](std::string_view prefix) { return key.starts_with(prefix); });
  }

  Channel channel_of(std::string_view key) {
    Family* family = counts(key) ? events_ : memory_;
    const auto* name = std::find_if(kNames.begin(), kNames.end(), [key](const Name& each) { return each.key == key; });
    const std::string metric = name != kNames.end() ? std::string(name->metric) : "memory_stat." + std::string(key);
    return {family, family->add(metric, "", "job")};
  }

  KernelFile file_;
  std::string_view prefix_;
  DiffedText text_;
  KernelFile numa_file_;
  std::string_view numa_prefix_;
  std::int64_t numa_unit_ = 1;
  DiffedText numa_text_;
  Family* numa_ = nullptr;
  KeyIndex numa_keys_;  // "anon 0"
  std::vector<std::int32_t> numa_channels_;
  std::string name_;  // kept, so that nothing is allocated
  Family* memory_ = nullptr;
  Family* events_ = nullptr;
  KeyIndex keys_;
  std::vector<Channel> channels_;
};

std::unique_ptr<Probe> open_job_memory(const ProbeContext& context) {
  need_job(context);
  return std::make_unique<JobMemoryProbe>(context);
}

const RegisteredProbe entry{{.name = "job_memory",
                             .help = "Memory of the job's control group by use, reclaim and refaults",
                             .families = kFamilies,
                             .open = open_job_memory,
                             .remedy = "run the command under reveal-run or srun --reveal; on your own machine: "
                                       "systemd-run --user --scope reveal-run -- COMMAND"}};

}  // namespace
}  // namespace reveal::probe::job_memory
