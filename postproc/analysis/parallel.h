// The nodes of a job analysed side by side, within the cpus and the memory that a report may take. Which thread takes
// which node decides nothing.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>

#include "postproc/detect/pipelines/sample_window.h"

namespace reveal {

/// Cpus this process may use, but three at most: a report may be made on a node where others work, and each node that
/// is analysed needs its memory.
[[nodiscard]] std::size_t usable_threads();

/// Lets freed memory stay with the process: to give it back, one thread interrupts all others (on two cpus of a virtual
/// machine that cost as much as the second thread gained).
void keep_freed_memory();

/// The opposite: what was freed is of no use to this process any more. A few milliseconds for a hundred megabytes.
void return_freed_memory();
/// Calls run(0) ... run(tasks - 1), in this order, on at most so many threads; after a throw no further one begins, and
/// the first exception comes out.
void run_parallel(std::size_t tasks, std::size_t threads, const std::function<void(std::size_t)>& run);

/// Memory shared by threads that work at the same time.
class MemoryBudget {
 public:
  MemoryBudget(std::size_t bytes, std::size_t tasks) : bytes_(bytes), tasks_(tasks) {}

  class Share {
   public:
    Share(MemoryBudget& budget, std::size_t bytes, bool alone) : budget_(budget), bytes_(bytes), alone_(alone) {}
    ~Share() { budget_.give_back(bytes_); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    /// There is no other task, or none of that size fits beside it.
    [[nodiscard]] bool alone() const { return alone_; }

   private:
    MemoryBudget& budget_;
    std::size_t bytes_;
    bool alone_;
  };
  /// Waits until it fits beside the others; a single thread gets any amount.
  [[nodiscard]] Share take(std::size_t bytes);
  /// Memory that tasks leave to the next ones, as a part of the shares of these.
  [[nodiscard]] WindowPool& windows() { return windows_; }

 private:
  void give_back(std::size_t bytes);

  std::size_t bytes_;
  std::size_t tasks_;
  std::size_t taken_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  WindowPool windows_;
};

}  // namespace reveal
