// A fixed number of places in which processes of the job are measured one by one: first each rank's main process, then
// the busiest. A counter of a slot never jumps when its process changes: it goes on from where it was.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/job/job.h"
#include "core/kernel_text/kernel_tree.h"
#include "core/kernel_text/kernel_words.h"
#include "core/sampler/trace_sink.h"

namespace reveal {

/// Sums the growth of counters that begin anew with each process or thread.
class MonotonicSum {
 public:
  /// The next raw value is another one's. `before`: the start value of that one; kMissing: the first value that is
  /// seen.
  void restart(std::int64_t before = kMissing) noexcept {
    known_ = before != kMissing;
    first_ = last_ = known_ ? before : 0;
  }
  std::int64_t follow(std::int64_t raw) noexcept {
    if (!known_) first_ = raw;
    if (known_ && raw > last_) total_ = wrapping_sum(total_, raw - last_);
    last_ = raw;
    known_ = true;
    return total_;
  }
  /// Growth that is counted elsewhere already; false as long as there is not that much of it.
  bool leave_out(std::int64_t raw, std::int64_t amount) noexcept {
    if (!known_ || raw < last_ || raw - last_ < amount) return false;
    last_ += amount;
    return true;
  }
  void add(std::int64_t growth) noexcept { total_ = wrapping_sum(total_, growth); }
  [[nodiscard]] std::int64_t total() const noexcept { return total_; }
  /// How far the raw value was followed since the restart, including parts that were left out.
  [[nodiscard]] std::int64_t followed() const noexcept { return last_ - first_; }

 private:
  std::int64_t total_ = 0;
  std::int64_t first_ = 0;
  std::int64_t last_ = 0;
  bool known_ = false;
};

struct ProcessSlot {
  std::string instance;  // "rank0", "slot3"
  std::string role;      // "rank" or "job"
  int rank = -1;
  int pid = 0;  // 0: empty
  std::int64_t start_ticks = 0;
  const JobProcess* process = nullptr;  // valid until the next update()
  std::uint64_t occupants = 0;          // so far: a probe keeps its files while this stays
  bool from_birth = false;              // its process is measured from its begin on, so its counters count from 0
  std::int64_t wait_ns = kMissing;      // runnable without a cpu, all threads; goes on over occupants
  std::int64_t run_ns = kMissing;
};

class ProcessSlots {
 public:
  static constexpr std::size_t kSlots = 16;
  /// Most threads with scheduling read each tick, over all slots; beyond that, a process counts with its main thread
  /// only.
  static constexpr std::size_t kThreads = 128;

  ProcessSlots(KernelTree& fs, const Job& job, TraceSink& sink);
  void update(std::int64_t now_ns);

  [[nodiscard]] const std::vector<ProcessSlot>& slots() const noexcept { return slots_; }
  /// Waiting of all slots; kMissing if the kernel does not report it.
  [[nodiscard]] std::int64_t wait_ns() const noexcept { return total_wait_ns_; }
  [[nodiscard]] bool main_threads_only() const noexcept { return main_threads_only_; }

 private:
  struct Thread {
    int tid = 0;
    bool listed = false;
    KernelFile file;
    MonotonicSum run, wait;
  };
  struct Threads {
    std::vector<Thread> list;
    std::int64_t gone_run = 0;  // run-queue wait of threads that ended
    std::int64_t gone_wait = 0;
    std::int64_t count = 0;   // threads the process had when they were listed
    bool stale = false;       // one of them could not be read
    bool measured = false;    // some thread of the slot could be read at least once
    bool from_birth = false;  // so far each thread of the process was listed, or is younger than the last list
    std::int64_t wait = 0;    // as known last
  };

  void assign(std::int64_t now_ns);
  void occupy(std::size_t slot, const JobProcess& process, std::int64_t now_ns);
  void list_threads(std::size_t slot);
  void read_threads(std::size_t slot);
  [[nodiscard]] bool in_slot(int pid) const noexcept;

  KernelTree& fs_;
  const Job& job_;
  TraceSink& sink_;
  std::vector<ProcessSlot> slots_;
  std::vector<Threads> threads_;
  std::int64_t next_assignment_ns_ = 0;
  std::uint64_t generation_ = 0;
  std::uint64_t looks_ = 0;
  int entered_ = 0;  // slots, since the last look at all
  std::int64_t total_wait_ns_ = kMissing;
  bool main_threads_only_ = false;
};

}  // namespace reveal
