// A fixed number of places in which processes of the job are measured one by one: first each rank's main process, then
// the busiest. A counter of a slot never jumps when its process changes: it goes on from where it was.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/job/job.h"
#include "core/root/kernel_words.h"
#include "core/root/root_fs.h"
#include "core/sampler/sink.h"

namespace reveal {

/// Sums the growth of counters that begin anew with each process or thread.
class Continued {
 public:
  void restart() noexcept { known_ = false; }
  std::int64_t follow(std::int64_t raw) noexcept {
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
  [[nodiscard]] std::int64_t total() const noexcept { return total_; }

 private:
  std::int64_t total_ = 0;
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
  std::int64_t wait_ns = kMissing;      // runnable without a cpu, all threads; goes on over occupants
  std::int64_t run_ns = kMissing;
};

class ProcessSlots {
 public:
  static constexpr std::size_t kSlots = 16;
  /// Threads whose scheduling is read each tick, over all slots; beyond it a process counts with its main thread only.
  static constexpr std::size_t kThreads = 128;

  ProcessSlots(RootFs& fs, const Job& job, Sink& sink);
  void update(std::int64_t now_ns);

  [[nodiscard]] const std::vector<ProcessSlot>& slots() const noexcept { return slots_; }
  /// Waiting of all slots; kMissing if the kernel does not say.
  [[nodiscard]] std::int64_t wait_ns() const noexcept { return total_wait_ns_; }
  [[nodiscard]] bool main_threads_only() const noexcept { return main_threads_only_; }

 private:
  struct Thread {
    int tid = 0;
    bool listed = false;
    KernelFile file;
    Continued run, wait;
  };
  struct Threads {
    std::vector<Thread> list;
    std::int64_t gone_run = 0;  // of threads that ended
    std::int64_t gone_wait = 0;
    std::int64_t count = 0;  // threads the process had when they were listed
    bool stale = false;      // one of them could not be read
    bool measured = false;   // some thread of the slot could be read at least once
    std::int64_t wait = 0;   // as known last
  };

  void assign();
  void occupy(std::size_t slot, const JobProcess& process);
  void list_threads(std::size_t slot);
  void read_threads(std::size_t slot);
  [[nodiscard]] bool in_slot(int pid) const noexcept;

  RootFs& fs_;
  const Job& job_;
  Sink& sink_;
  std::vector<ProcessSlot> slots_;
  std::vector<Threads> threads_;
  std::int64_t next_assignment_ns_ = 0;
  std::uint64_t generation_ = 0;
  int entered_ = 0;  // slots, since the last look at all
  std::int64_t total_wait_ns_ = kMissing;
  bool main_threads_only_ = false;
};

}  // namespace reveal
