// memory.stat of the job's control group, version 1 or 2: what the job's memory is made of, and what the kernel had to
// do for it. Reclaim and refaults say that the limit, not the program, decides how fast it runs.
#include <algorithm>
#include <array>

#include "core/job/cgroup.h"
#include "core/root/key_index.h"
#include "core/sampler/probe.h"
#include "core/sampler/repeated_text.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr MetricHelp kMemory[] = {
    {"cgroup.memory_anon", "Memory of the job without a file."},
    {"cgroup.memory_file", "Page cache charged to the job."},
    {"cgroup.memory_dirty", "Page cache of the job waiting to be written."},
    {"cgroup.memory_writeback", "Page cache of the job being written."},
    {"memory_stat.<key>", "Every other line that is an amount, as version 2 calls it."},
};
constexpr MetricHelp kEvents[] = {
    {"cgroup.page_faults", "Page faults of the job."},
    {"cgroup.major_page_faults", "Page faults of the job that had to read."},
    {"memory_stat.workingset_refault_file", "Page cache of the job that was dropped and soon read again."},
    {"memory_stat.pgscan", "Pages looked at to free some."},
    {"memory_stat.<key>", "Every other line that counts."},
};
constexpr FamilyTable kFamilies[] = {
    {"job/memory", Kind::gauge, Unit::bytes, Scope::cgroup, Subsystem::memory, "What the job's memory is made of",
     "memory.stat", kMemory},
    {"job/memory_events", Kind::counter, Unit::count, Scope::cgroup, Subsystem::memory,
     "What was done for the job's memory", "memory.stat", kEvents},
};

// What has a name of its own, and what version 1 calls otherwise.
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
constexpr std::string_view kOfSubgroups = "total_";  // in version 1; in version 2 they are counted in
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
      prefix_ = group.controllers.empty() ? "" : kOfSubgroups;
      if (!file_.read().empty()) break;
      file_ = KernelFile();
    }
    if (!file_) throw Unavailable(why);
    memory_ = &context.family(kFamilies[0]);
    events_ = &context.family(kFamilies[1]);
  }

  void sample() noexcept override {
    if (!text_.update(file_.read())) parse();
    memory_->commit();
    events_->commit();
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

  Channel channel_of(std::string_view key) {
    const bool counts = std::any_of(std::begin(kCounts), std::end(kCounts),
                                    [key](std::string_view prefix) { return key.starts_with(prefix); });
    Family* family = counts ? events_ : memory_;
    const auto* name = std::find_if(kNames.begin(), kNames.end(), [key](const Name& each) { return each.key == key; });
    const std::string metric = name != kNames.end() ? std::string(name->metric) : "memory_stat." + std::string(key);
    return {family, family->add(metric, "", "job")};
  }

  KernelFile file_;
  std::string_view prefix_;
  RepeatedText text_;
  Family* memory_ = nullptr;
  Family* events_ = nullptr;
  KeyIndex keys_;
  std::vector<Channel> channels_;
};

std::unique_ptr<Probe> open_job_memory(const ProbeContext& context) {
  if (context.job == nullptr) throw Unavailable("no job was named (--job)");
  return std::make_unique<JobMemoryProbe>(context);
}

const RegisteredProbe entry{{.name = "job_memory",
                             .help = "What the memory of the job's control group is made of, reclaim and refaults",
                             .families = kFamilies,
                             .open = open_job_memory,
                             .remedy = "run the command under reveal-run or srun --reveal; on your own machine: "
                                       "systemd-run --user --scope reveal-run -- COMMAND"}};

}  // namespace
}  // namespace reveal
