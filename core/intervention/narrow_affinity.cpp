// Threads that crowd on a part of the cpus that the job owns, while others of these cpus are idle, may run on all of
// them: `taskset` of the job's own processes. Only threads that all have the same cpus are taken for a crowd: those
// that are pinned each to a cpu of its own, or to parts of the node, were put there on purpose, also if they are idle.
// The crowd stays on its NUMA nodes: its memory is there.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "core/intervention/intervention.h"
#include "core/intervention/job_threads.h"
#include "core/intervention/ownership.h"
#include "core/kernel_text/kernel_words.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/text.h"

namespace reveal::intervention::narrow_affinity {
namespace {

// No looser than the thresholds of the rule, so that the report has the finding, too.
constexpr double kMostAllowed = 0.6;   // cpus that may be used, of those that are owned
constexpr double kLeastWaiting = 0.4;  // threads that are ready and have no cpu
constexpr double kHelpers = 0.05;      // part of the cpus that helper threads of the ranks wait for
constexpr double kLeastFull = 0.9;     // use of the cpus on which the threads crowd
constexpr double kLeastIdle = 0.8;     // part of each look in which a cpu was idle that the crowd gets
constexpr double kBusy = 0.05;         // cpus, from which on a thread counts
constexpr int kMostGenerations = 16;   // between a process of the crowd and a later one below it
constexpr int kPasses = 3;             // a process may start threads meanwhile, with the cpus that it had

/// With these the job binds its threads itself; these words switch that off.
constexpr const char* kBindings[] = {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"};
constexpr std::string_view kUnbound[] = {"", "false", "FALSE", "none", "disabled"};

/// The variable by which a process has its threads bound; "" if there is none.
std::string binding_in(const Variables& environment) {
  for (const char* name : kBindings) {
    const auto variable = environment.find(name);
    if (variable == environment.end()) continue;
    if (std::find(std::begin(kUnbound), std::end(kUnbound), variable->second) == std::end(kUnbound)) return name;
  }
  return "";
}

using TicksByCpu = std::map<int, std::int64_t>;

/// Idle time since the node was started, from lines "cpu3 user nice system idle iowait ...".
TicksByCpu idle_ticks(std::string_view stat) {
  TicksByCpu idle;
  std::string_view line;
  while (next_line(stat, line)) {
    if (!line.starts_with("cpu")) break;
    const auto cpu = parse_int(cut_word(line).substr(3));
    skip_words(line, 3);
    std::int64_t free = 0;
    std::int64_t waiting = 0;
    if (cpu && parse_counter(cut_word(line), free) && parse_counter(cut_word(line), waiting)) {
      idle[static_cast<int>(*cpu)] = wrapping_sum(free, waiting);
    }
  }
  return idle;
}

std::string count_of(std::size_t count, const char* singular, const char* plural) {
  return std::to_string(count) + ' ' + (count == 1 ? singular : plural);
}

/// A short name: an event has room for 191 bytes.
std::string short_list(const CpuSet& cpus) {
  constexpr std::size_t kMostBytes = 40;
  std::string list = cpus.list();
  return list.size() > kMostBytes ? std::to_string(cpus.size()) + " cpus" : list;
}

/// The sets that have a cpu of these.
CpuSet sets_with(const CpuSet& cpus, const std::vector<CpuSet>& sets) {
  CpuSet all;
  for (const CpuSet& set : sets) {
    CpuSet common = set;
    common.keep(cpus);
    if (common.size() > 0) all.insert(set);
  }
  return all;
}

/// Busy threads that may run on the same cpus.
struct Crowd {
  CpuSet cpus;
  std::set<int> processes;
  std::size_t threads = 0;
  double used = 0;  // cpus
};

class NarrowAffinity final : public Intervention {
 public:
  explicit NarrowAffinity(const InterventionContext& context) : context_(context) {}

  SeenFinding look(const JobLoad& load) override {
    if (load.waiting < std::max(kLeastWaiting, kHelpers * load.used / kLeastFull)) {
      used_before_.clear();
      idle_.clear();
      spare_.reset();
      return {};
    }
    const SeenFinding seen = look_at_crowd(load);
    if (!seen.finding || !seen.refused.empty()) spare_.reset();
    return seen;
  }

  Change apply() override {
    met_.clear();
    changed_.clear();
    given_.clear();
    there_.clear();
    error_ = 0;
    for (const int process : crowd_.processes) {
      if (std::string why = why_not(process); !why.empty()) return {.text = std::move(why)};
    }
    for (const auto& process : context_.job.processes()) there_.emplace(process->pid, process->start_ticks);
    for (int pass = 0; pass < kPasses; ++pass) {
      for (const int process : crowd_.processes) widen(process);
    }
    if (changed_.empty()) return {.text = why_nothing_changed()};
    std::set<int> processes;
    for (const Changed& one : changed_) processes.insert(one.thread.pid);
    return {.threads = changed_.size(),
            .text = "widened the cpus of " + count_of(processes.size(), "process", "processes") + " (" +
                    count_of(changed_.size(), "thread", "threads") + ") from " + short_list(crowd_.cpus) + " to " +
                    short_list(wider_)};
  }

  Change undo() override {
    std::size_t restored = 0;
    for (const Changed& one : changed_) restored += set_cpus(one.thread, one.cpus, crowd_.cpus) ? 1 : 0;
    std::size_t left = kMostThreads;
    for (const int process : crowd_.processes) left -= narrow_new_threads(process, left);
    for (const auto& process : context_.job.processes()) {
      if (is_new_child(*process)) left -= narrow(threads_of(context_.fs, process->pid), left);
    }
    restored += kMostThreads - left;
    return {.threads = restored,
            .text = "gave " + count_of(restored, "thread", "threads") + " cpus " + short_list(crowd_.cpus) + " again"};
  }

 private:
  struct Changed {
    JobThread thread;
    CpuSet cpus;  // that it has got
  };

  SeenFinding look_at_crowd(const JobLoad& load) {
    const TicksByCpu idle = idle_ticks(context_.fs.unrecorded_text("/proc/stat"));
    const auto groups = thread_groups(context_);
    if (!groups) used_before_.clear();
    if (!groups) return {.finding = true, .refused = "it has more than " + std::to_string(kMostThreads) + " threads"};
    const std::vector<Crowd> busy = busy_groups(*groups, load.seconds);
    const TicksByCpu idle_before = std::exchange(idle_, idle);
    if (busy.empty()) return {};
    OwnedCpus owned;
    SeenFinding seen = judge(busy, owned);
    if (!seen.finding || !seen.refused.empty()) return seen;
    const bool another = spare_ && busy.front().cpus != crowd_.cpus;
    crowd_ = busy.front();
    if (another) return {};  // the seconds begin anew
    seen.refused = why_bound(*groups, owned.cpus);
    if (seen.refused.empty()) seen.refused = choose_cpus(owned.cpus, idle_before, load.seconds);
    return seen;
  }

  /// "" if all threads are either in the crowd or bound to nothing.
  std::string why_bound(const std::vector<ThreadGroup>& groups, const CpuSet& owned) const {
    for (const ThreadGroup& group : groups) {
      if (group.cpus == crowd_.cpus || group.cpus.contains(owned)) continue;
      return "some of its threads are bound to other cpus (" + short_list(group.cpus) + ")";
    }
    return "";
  }

  /// The cpus that were idle in all looks so far; "" if there are some, otherwise a reason.
  std::string choose_cpus(const CpuSet& owned, const TicksByCpu& before, double seconds) {
    CpuSet others = owned;
    others.erase(crowd_.cpus);
    std::optional<CpuSet> spare = idle_cpus(others, before, seconds);
    if (!spare) return "the idle time of the other cpus that the job owns is not known";
    if (spare_) spare->keep(*spare_);
    if (spare->size() == 0) return "the other cpus that the job owns were not idle";
    if (const CpuSet near = sets_with(crowd_.cpus, numa_nodes()); near.size() > 0) spare->keep(near);
    if (spare->size() == 0) return "the other cpus are on other NUMA nodes than its memory";
    if (sets_with(crowd_.cpus, cores_of(crowd_.cpus)).contains(*spare)) {
      return "the other cpus are only hardware threads of the cores that it uses";
    }
    spare_ = spare;
    wider_ = crowd_.cpus;
    wider_.insert(*spare);
    return "";
  }

  std::vector<CpuSet> numa_nodes() const {
    const std::string folder = "/sys/devices/system/node/";
    std::vector<CpuSet> nodes;
    for (const std::string& name : context_.fs.list(folder)) {
      if (name.starts_with("node")) nodes.push_back(CpuSet::of_list(context_.fs.word(folder + name + "/cpulist")));
    }
    return nodes;
  }

  std::vector<CpuSet> cores_of(const CpuSet& cpus) const {
    std::vector<CpuSet> cores;
    for (const int cpu : context_.host.cpus_online) {
      if (!cpus.contains(cpu)) continue;
      const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
      cores.push_back(CpuSet::of_list(context_.fs.word(folder + "/topology/thread_siblings_list")));
    }
    return cores;
  }

  /// Threads that were not seen in the look before count from now on.
  std::vector<Crowd> busy_groups(const std::vector<ThreadGroup>& groups, double seconds) {
    std::unordered_map<int, JobThread> now;
    std::vector<Crowd> busy;
    const double cpus_per_tick = static_cast<double>(context_.host.tick_ns) / kSecond / seconds;
    for (const ThreadGroup& group : groups) {
      Crowd crowd{.cpus = group.cpus, .processes = {}};
      for (const JobThread& thread : group.threads) {
        now[thread.tid] = thread;
        const auto before = used_before_.find(thread.tid);
        if (before == used_before_.end() || before->second.start_ticks != thread.start_ticks) continue;
        const double used = static_cast<double>(thread.used_ticks - before->second.used_ticks) * cpus_per_tick;
        if (used < kBusy) continue;
        crowd.processes.insert(thread.pid);
        ++crowd.threads;
        crowd.used += used;
      }
      if (crowd.threads > 0) busy.push_back(std::move(crowd));
    }
    used_before_ = std::move(now);
    return busy;
  }

  /// Reads the cpus that the job owns only where its threads crowd.
  SeenFinding judge(const std::vector<Crowd>& busy, OwnedCpus& owned) const {
    CpuSet allowed;
    double used = 0;
    std::size_t threads = 0;
    for (const Crowd& crowd : busy) {
      allowed.insert(crowd.cpus);
      used += crowd.used;
      threads += crowd.threads;
    }
    const auto cpus = static_cast<double>(allowed.size());
    const bool crowded = threads > allowed.size() && used >= kLeastFull * cpus;
    if (!crowded) return {};
    owned = owned_cpus(context_);
    const std::size_t all = owned.unknown.empty() ? owned.cpus.size() : context_.host.cpus_online.size();
    if (cpus >= kMostAllowed * static_cast<double>(all)) return {};
    if (!owned.unknown.empty()) return {.finding = true, .refused = owned.unknown};
    if (busy.size() > 1) return {.finding = true, .refused = "its busy threads are bound to different cpus"};
    if (!owned.cpus.contains(allowed)) return {.finding = true, .refused = "its cpus are not all cpus of the job"};
    return {.finding = true, .refused = {}};
  }

  /// The members that were idle since the last look; nothing where that is not known for each.
  std::optional<CpuSet> idle_cpus(const CpuSet& cpus, const TicksByCpu& before, double seconds) const {
    CpuSet idle;
    for (const int cpu : context_.host.cpus_online) {
      if (!cpus.contains(cpu)) continue;
      const auto now = idle_.find(cpu);
      const auto earlier = before.find(cpu);
      if (now == idle_.end() || earlier == before.end()) return std::nullopt;
      const auto ticks = static_cast<double>(now->second - earlier->second);
      if (ticks * static_cast<double>(context_.host.tick_ns) / kSecond >= kLeastIdle * seconds) idle.insert(cpu);
    }
    return idle;
  }

  std::string why_not(int process) const {
    if (std::string why = why_left_alone(context_, process); !why.empty()) return why;
    const std::string binding = binding_in(environment_of(context_.fs, process).value_or(Variables()));
    return binding.empty() ? "" : "the job binds its threads itself (" + binding + ")";
  }

  void widen(int process) {
    for (const JobThread& thread : threads_of(context_.fs, process)) {
      if (changed_.size() >= kMostThreads) return;
      if (!met_.emplace(thread.tid, thread.start_ticks).second || thread.realtime) continue;
      if (!set_cpus(thread, crowd_.cpus, wider_)) continue;
      const auto got = context_.masks.read(thread.tid);  // no more than its own cpuset allows
      confined_ = got && *got == crowd_.cpus;
      if (!got || confined_) continue;
      changed_.push_back({thread, *got});
      if (std::find(given_.begin(), given_.end(), *got) == given_.end()) given_.push_back(*got);
    }
  }

  std::string why_nothing_changed() const {
    if (error_ != 0) return std::string("the kernel refused it: ") + std::strerror(error_);
    return confined_ ? "their own cpuset allows no more" : "its threads ended, or changed their cpus";
  }

  /// Threads that the process has started since then inherited the wider mask.
  std::size_t narrow_new_threads(int process, std::size_t most) {
    std::vector<JobThread> threads = threads_of(context_.fs, process);
    const auto is_met = [this](const JobThread& thread) { return met_.contains({thread.tid, thread.start_ticks}); };
    if (std::none_of(threads.begin(), threads.end(), is_met)) return 0;  // another process with its number
    std::erase_if(threads, is_met);
    return narrow(threads, most);
  }

  std::size_t narrow(const std::vector<JobThread>& threads, std::size_t most) {
    std::size_t count = 0;
    for (const JobThread& thread : threads) {
      if (count == most) break;
      const bool done = !thread.realtime && std::any_of(given_.begin(), given_.end(), [&](const CpuSet& given) {
        return set_cpus(thread, given, crowd_.cpus);
      });
      count += done ? 1 : 0;
    }
    return count;
  }

  /// A process of the crowd, or a child of it, started this one after the change.
  bool is_new_child(const JobProcess& process) const {
    if (there_.contains({process.pid, process.start_ticks}) || !works(context_.job, process)) return false;
    if (!why_left_alone(context_, process.pid).empty()) return false;
    const JobProcess* parent = context_.job.find(process.stat.parent);
    for (int depth = 0; parent != nullptr && depth < kMostGenerations; ++depth) {
      if (crowd_.processes.contains(parent->pid)) return true;
      parent = context_.job.find(parent->stat.parent);
    }
    return false;
  }

  /// Only of the thread that is meant, and only while its cpus are those.
  bool set_cpus(const JobThread& thread, const CpuSet& from, const CpuSet& to) {
    const auto now = context_.masks.read(thread.tid);
    if (!now || *now != from || !is_there(context_.fs, thread)) return false;
    const int error = context_.masks.write(thread.tid, to);
    if (error != 0) error_ = error;
    return error == 0;
  }

  InterventionContext context_;
  std::unordered_map<int, JobThread> used_before_;  // by id, at the last look
  TicksByCpu idle_;                                 // likewise
  Crowd crowd_;                                     // as seen last
  std::optional<CpuSet> spare_;                     // cpus that were idle in all looks with this crowd
  CpuSet wider_;                                    // the crowd's and these
  std::set<std::pair<int, std::int64_t>> there_;    // processes of the job when they were changed: id, start
  std::vector<CpuSet> given_;
  bool confined_ = false;
  std::set<std::pair<int, std::int64_t>> met_;  // threads of its processes when they were changed: id, start
  std::vector<Changed> changed_;
  int error_ = 0;
};

std::unique_ptr<Intervention> open_narrow_affinity(const InterventionContext& context) {
  return std::make_unique<NarrowAffinity>(context);
}

const RegisteredIntervention entry{{.rule = "cpu.affinity_too_narrow", .open = open_narrow_affinity}};

}  // namespace
}  // namespace reveal::intervention::narrow_affinity
