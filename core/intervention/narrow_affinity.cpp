// Threads that crowd on a part of the cpus that the job owns, while others of these cpus are idle, may run on all of
// them: `taskset` of the job's own processes. Only threads that all have the same cpus are taken for a crowd: those
// that are pinned each to a cpu of its own, or to parts of the node, were put there on purpose.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "core/intervention/intervention.h"
#include "core/intervention/job_threads.h"
#include "core/intervention/ownership.h"
#include "core/job/process_stat.h"
#include "core/kernel_text/kernel_words.h"
#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/text.h"

namespace reveal::intervention::narrow_affinity {
namespace {

// No looser than the thresholds of the rule, so that the report has the finding, too.
constexpr double kMostAllowed = 0.6;   // cpus that may be used, of those that are owned
constexpr double kLeastWaiting = 0.4;  // threads that are ready and have no cpu
constexpr double kLeastFull = 0.9;     // use of the cpus on which the threads crowd
constexpr double kLeastIdle = 0.5;     // cpus, of the others that the job owns
constexpr double kBusy = 0.05;         // cpus, from which on a thread counts
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
    if (load.waiting < kLeastWaiting) {
      used_before_.clear();
      idle_.clear();
      return {};
    }
    const TicksByCpu idle = idle_ticks(context_.fs.text("/proc/stat").value_or(""));
    const auto groups = thread_groups(context_);
    if (!groups) return {.finding = true, .refused = "it has more than " + std::to_string(kMostThreads) + " threads"};
    const std::vector<Crowd> busy = busy_groups(*groups, load.seconds);
    const TicksByCpu idle_before = std::exchange(idle_, idle);
    if (busy.empty()) return {};
    const OwnedCpus owned = owned_cpus(context_);
    SeenFinding seen = judge(busy, owned);
    if (!seen.finding || !seen.refused.empty()) return seen;
    owned_ = owned.cpus;
    crowd_ = busy.front();
    CpuSet others = owned_;
    others.erase(crowd_.cpus);
    if (!(idle_cpus(others, idle_before, load.seconds) >= kLeastIdle)) {
      seen.refused = "the other cpus that the job owns were not idle";
    }
    return seen;
  }

  Change apply() override {
    for (const int process : crowd_.processes) {
      if (std::string why = why_not(process); !why.empty()) return {.text = std::move(why)};
    }
    met_.clear();
    changed_.clear();
    error_ = 0;
    for (int pass = 0; pass < kPasses; ++pass) {
      for (const int process : crowd_.processes) widen(process);
    }
    if (changed_.empty()) {
      return {.text =
                  error_ != 0 ? std::string("the kernel refused it: ") + std::strerror(error_) : "its threads ended"};
    }
    std::set<int> processes;
    for (const Changed& one : changed_) processes.insert(one.thread.pid);
    return {.threads = changed_.size(),
            .text = "widened the cpus of " + count_of(processes.size(), "process", "processes") + " (" +
                    count_of(changed_.size(), "thread", "threads") + ") from " + crowd_.cpus.list() + " to " +
                    owned_.list()};
  }

  Change undo() override {
    std::size_t restored = 0;
    for (const Changed& one : changed_) restored += set_cpus(one.thread, one.cpus, crowd_.cpus) ? 1 : 0;
    for (const int process : crowd_.processes) restored += narrow_new_threads(process);
    return {.threads = restored,
            .text = "gave " + count_of(restored, "thread", "threads") + " cpus " + crowd_.cpus.list() + " again"};
  }

 private:
  struct Changed {
    JobThread thread;
    CpuSet cpus;  // that it has got
  };

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

  SeenFinding judge(const std::vector<Crowd>& busy, const OwnedCpus& owned) const {
    CpuSet allowed;
    double used = 0;
    std::size_t threads = 0;
    for (const Crowd& crowd : busy) {
      allowed.insert(crowd.cpus);
      used += crowd.used;
      threads += crowd.threads;
    }
    const std::size_t all = owned.unknown.empty() ? owned.cpus.size() : context_.host.cpus_online.size();
    const auto cpus = static_cast<double>(allowed.size());
    const bool crowded = threads > allowed.size() && used >= kLeastFull * cpus;
    if (cpus >= kMostAllowed * static_cast<double>(all) || !crowded) return {};
    if (!owned.unknown.empty()) return {.finding = true, .refused = owned.unknown};
    if (busy.size() > 1) return {.finding = true, .refused = "its busy threads are bound to different cpus"};
    if (!owned.cpus.contains(allowed)) return {.finding = true, .refused = "its cpus are not all cpus of the job"};
    return {.finding = true, .refused = {}};
  }

  /// NaN where that is not known of all of them.
  double idle_cpus(const CpuSet& cpus, const TicksByCpu& before, double seconds) const {
    double ticks = 0;
    for (const int cpu : context_.host.cpus_online) {
      if (!cpus.contains(cpu)) continue;
      const auto now = idle_.find(cpu);
      const auto earlier = before.find(cpu);
      if (now == idle_.end() || earlier == before.end()) return std::nan("");
      ticks += static_cast<double>(now->second - earlier->second);
    }
    return ticks * static_cast<double>(context_.host.tick_ns) / kSecond / seconds;
  }

  std::string why_not(int process) const {
    if (std::string why = why_left_alone(context_, process); !why.empty()) return why;
    const std::string binding = binding_in(environment_of(context_.fs, process).value_or(Variables()));
    return binding.empty() ? "" : "the job binds its threads itself (" + binding + ")";
  }

  void widen(int process) {
    for (const JobThread& thread : threads_of(context_.fs, process)) {
      if (!met_.emplace(thread.tid, thread.start_ticks).second) continue;
      if (!set_cpus(thread, crowd_.cpus, owned_)) continue;
      const auto got = context_.masks.read(thread.tid);  // no more than its own cpuset allows
      if (got && *got != crowd_.cpus) changed_.push_back({thread, *got});
    }
  }

  /// Threads that the process has started since then inherited the wider mask.
  std::size_t narrow_new_threads(int process) {
    const std::vector<JobThread> threads = threads_of(context_.fs, process);
    const auto is_met = [this](const JobThread& thread) { return met_.contains({thread.tid, thread.start_ticks}); };
    if (std::none_of(threads.begin(), threads.end(), is_met)) return 0;  // another process with its number
    return static_cast<std::size_t>(std::count_if(threads.begin(), threads.end(), [&](const JobThread& thread) {
      return !is_met(thread) && set_cpus(thread, owned_, crowd_.cpus);
    }));
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
  CpuSet owned_;
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
