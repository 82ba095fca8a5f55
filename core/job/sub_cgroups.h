// The control groups below the job's: of its steps and tasks, and those that containers made for themselves.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "core/job/job.h"
#include "core/kernel_text/kernel_tree.h"

namespace reveal {

class SubCgroups {
 public:
  explicit SubCgroups(KernelTree& fs) : fs_(fs) {}

  /// Every ten seconds, some processes in turn.
  void look(std::int64_t now_ns, const Job& job);

  /// Groups seen so far, relative to the job's group: "step_0/task_0 step_0/task_1/docker-4f1c.scope".
  [[nodiscard]] std::string seen() const;
  [[nodiscard]] const std::set<std::string>& groups() const noexcept { return seen_; }

 private:
  KernelTree& fs_;
  std::set<std::string> seen_;
  std::int64_t next_ns_ = 0;
  std::size_t turn_ = 0;
};

}  // namespace reveal
