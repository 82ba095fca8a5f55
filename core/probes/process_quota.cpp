// How long the cpu quota of the control groups around a process held it back. The job's own group (job_cgroup) does not
// show a limit that a launcher or a container put around one of its ranks.
// https://docs.kernel.org/scheduler/sched-bwc.html
#include <algorithm>
#include <array>

#include "core/job/cgroup.h"
#include "core/kernel_text/kernel_words.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::process_quota {
namespace {

constexpr MetricHelp kHeldBack[] = {
    {"process.throttled_time", "Cpu time for which a quota throttled the control groups of the process."}};
constexpr FamilyTable kFamilies[] = {{"process/quota", Kind::counter, Unit::nanoseconds, Scope::process, Subsystem::cpu,
                                      "Time processes were throttled by a cpu quota",
                                      "cpu.stat of the groups in /proc/PID/cgroup", kHeldBack}};

/// The names of version 2 and 1, with their units.
struct Key {
  std::string_view name;
  std::int64_t nanoseconds;
};
constexpr std::array kKeys = {Key{"throttled_usec", 1000}, Key{"throttled_time", 1}};

std::int64_t throttled_in(std::string_view text) noexcept {
  std::string_view line;
  while (next_line(text, line)) {
    const std::string_view name = cut_word(line);
    std::int64_t value = 0;
    for (const Key& key : kKeys) {
      if (name == key.name && parse_counter(cut_word(line), value)) return scaled(value, key.nanoseconds);
    }
  }
  return kMissing;
}

class QuotaProbe final : public Probe {
 public:
  explicit QuotaProbe(const ProbeContext& context) : context_(context), family_(context.family(kFamilies[0])) {}

  void sample() noexcept override {
    family_.begin();
    const std::vector<ProcessSlot>& slots = context_.slots->slots();
    for (std::size_t i = places_.size(); i < slots.size(); ++i) {
      family_.add(kHeldBack[0].name, slots[i].instance, slots[i].role);
      places_.emplace_back();
    }
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].process != nullptr) measure(i, slots[i]);
    }
    family_.commit();
  }

 private:
  struct Level {
    KernelFile file;
    MonotonicSum counter;
  };
  struct Place {
    std::uint64_t occupants = 0;
    KernelFile membership;
    std::string groups;         // its last text: a process may be moved at any time
    std::vector<Level> levels;  // the groups that count it
    bool known = false;         // false: the groups cannot be seen. (Without a quota, nothing is held back.)
    std::int64_t before = 0;    // time in earlier groups
  };

  void measure(std::size_t slot, const ProcessSlot& process) {
    Place& place = places_[slot];
    if (place.occupants != process.occupants) {
      place.occupants = process.occupants;
      place.membership = context_.fs.open("/proc/" + std::to_string(process.pid) + "/cgroup", 1024);
    }
    const std::string_view groups = place.membership.read();
    if (groups.empty()) return;
    if (groups != place.groups) {
      place.groups = groups;
      enter(place, process.pid);
    }
    if (!place.known) return;
    std::int64_t total = place.before;
    for (Level& level : place.levels) {
      if (const std::int64_t value = throttled_in(level.file.read()); value != kMissing) level.counter.follow(value);
      total = wrapping_sum(total, level.counter.total());
    }
    family_.set(static_cast<std::int32_t>(slot), total);
  }

  /// Opens the process's group and those around it: whichever has the quota holds it back. The outermost one we see
  /// counts too: in a container it is the container's.
  void enter(Place& place, int pid) {
    for (const Level& level : place.levels) place.before = wrapping_sum(place.before, level.counter.total());
    place.levels.clear();
    place.known = false;
    for (const Cgroup& group : cgroups_of(context_.fs, pid)) {
      if (group.folder.empty() || (!group.controllers.empty() && !group.has("cpu"))) continue;
      place.known = true;
      std::string folder = group.folder;
      for (std::string path = group.path;; path.resize(path.rfind('/'))) {
        KernelFile file = context_.fs.open(folder + "/cpu.stat", 512);
        if (throttled_in(file.read()) != kMissing) place.levels.push_back({std::move(file), {}});
        if (path.size() <= 1 || !folder.ends_with(path)) break;
        folder.resize(folder.size() - (path.size() - path.rfind('/')));
      }
    }
  }

  ProbeContext context_;
  Family& family_;
  std::vector<Place> places_;
};

std::unique_ptr<Probe> open_quota(const ProbeContext& context) {
  need_job(context);
  return std::make_unique<QuotaProbe>(context);
}

const RegisteredProbe entry{{.name = "process_quota",
                             .help = "Time the job's main processes were throttled by a cpu quota",
                             .period = 1s,
                             .families = kFamilies,
                             .open = open_quota,
                             .remedy = "run the command under reveal-run or srun --reveal"}};

}  // namespace
}  // namespace reveal::probe::process_quota
