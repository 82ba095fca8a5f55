#include "postproc/analysis/parallel.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

namespace reveal {
namespace {

constexpr std::size_t kMostThreads = 3;

}  // namespace

std::size_t usable_threads() {
  // glibc counts the cpus of the affinity mask.
  return std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
}

void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kLargestReused = 32 << 20;  // the most that malloc takes; larger blocks come and go
  mallopt(M_MMAP_THRESHOLD, kLargestReused);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 4 << 20);
#endif
}

void return_freed_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

void run_parallel(std::size_t tasks, std::size_t threads, const std::function<void(std::size_t)>& run) {
  std::mutex mutex;
  std::size_t next = 0;
  std::exception_ptr failure;
  const auto work = [&] {
    while (true) {
      std::size_t mine = 0;
      {
        const std::lock_guard lock(mutex);
        if (next == tasks || failure) return;
        mine = next++;
      }
      try {
        run(mine);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < std::min(threads, tasks); ++i) others.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

MemoryBudget::Share MemoryBudget::take(std::size_t bytes) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return taken_ == 0 || taken_ + bytes <= bytes_; });
  taken_ += bytes;
  return {*this, bytes, tasks_ == 1 || bytes > bytes_ / 2};
}

void MemoryBudget::give_back(std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    taken_ -= bytes;
  }
  changed_.notify_all();
}

}  // namespace reveal
