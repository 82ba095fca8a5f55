// The cpus on which the kernel lets a thread run. Tests have a table of their own instead of the kernel.
#pragma once

#include <optional>

#include "core/job/cpu_set.h"

namespace reveal {

class ThreadMasks {
 public:
  virtual ~ThreadMasks() = default;
  /// Nothing if there is no such thread.
  [[nodiscard]] virtual std::optional<CpuSet> read(int tid) const = 0;
  /// Returns an errno, 0 if it was done.
  [[nodiscard]] virtual int write(int tid, const CpuSet& cpus) = 0;
};

/// Needs no privilege for threads of the same user.
/// https://man7.org/linux/man-pages/man2/sched_setaffinity.2.html
class KernelThreadMasks final : public ThreadMasks {
 public:
  [[nodiscard]] std::optional<CpuSet> read(int tid) const override { return CpuSet::of_thread(tid); }
  [[nodiscard]] int write(int tid, const CpuSet& cpus) override { return cpus.bind_thread(tid); }
};

}  // namespace reveal
