// The number of iterations that a job makes, where it states it: REVEAL_ITERATIONS in the environment of its processes.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/job/job.h"
#include "core/kernel_text/kernel_tree.h"

namespace reveal {

/// The value in "NAME=value\0NAME=value\0"; 0: none, or no number above 0.
[[nodiscard]] std::int64_t planned_iterations_in(std::string_view environ) noexcept;

/// Looks every ten seconds at the process that works most, a few times: a job script may set the variable after its
/// begin, for the programs that it starts.
class PlannedIterations {
 public:
  explicit PlannedIterations(KernelTree& fs) : fs_(fs) {}
  /// 0 while it is not known.
  std::int64_t look(std::int64_t now_ns, const Job& job);

 private:
  KernelTree& fs_;
  std::int64_t next_ns_ = 0;
  std::int64_t known_ = 0;
  int looks_ = 0;
};

}  // namespace reveal
