// Counts a job without any privilege: attaches to each thread of every process that exists at the start, and the kernel
// passes the counters on to the processes they begin. A process that begins between the listing and the attaching is
// missed, with its children; nothing is counted twice.
// https://man7.org/linux/man-pages/man2/perf_event_open.2.html (inherit)
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/job/job.h"
#include "core/pmu/counter_group.h"

namespace reveal {

class JobTasks {
 public:
  /// Threads attached to, at most; each costs as many files as it has events.
  static constexpr std::size_t kMostAttached = 256;

  /// `attach` opens the counters of one thread and returns 0 or the errno.
  JobTasks(KernelTree& fs, const Job& job, std::function<int(const PerfTarget&)> attach);

  /// Attaches to new tasks of the job. Slow only when processes came or went. Returns the places of groups without
  /// processes, theirs and all they began, the last first: read them once more and take them out.
  [[nodiscard]] std::vector<std::size_t> update();
  /// The group at this place was taken out.
  void taken_out(std::size_t place);

  /// At least one process was attached to, so far.
  [[nodiscard]] bool attached() const noexcept { return next_attachment_ > 0; }
  /// Threads of the job that could not be attached to, except those of launchers and their children.
  [[nodiscard]] std::size_t missed() const noexcept { return missed_; }
  /// The errno of the first that could not, except for one that had ended.
  [[nodiscard]] int error() const noexcept { return error_; }

 private:
  struct Process {
    std::int64_t start_ticks = 0;
    int attachment = -1;  // -1: could not be attached to
    bool alive = false;
  };
  void attach(const JobProcess& process);
  void forget_the_dead();

  KernelTree& fs_;
  const Job& job_;
  std::function<int(const PerfTarget&)> attach_;
  std::unordered_map<int, Process> processes_;
  std::vector<int> attachments_;  // per group, in the order of their places: an attachment
  int next_attachment_ = 0;
  std::uint64_t generation_ = 0;
  bool first_ = true;
  std::size_t missed_ = 0;
  int error_ = 0;
};

}  // namespace reveal
