// The step daemon that Slurm keeps on each node of a job from its begin to its end, where PrologFlags has Contain. When
// it is gone the job is over here, even if no epilog ends the broker.
// https://slurm.schedmd.com/slurm.conf.html#OPT_PrologFlags
#pragma once

#include <cstdint>
#include <string>

#include "core/kernel_text/kernel_tree.h"

namespace reveal {

class ExternStep {
 public:
  ExternStep(KernelTree& fs, std::string job, std::string node) noexcept;

  /// Call it about once a second. True if the daemon was found and has been gone for some seconds: the epilog comes
  /// first.
  [[nodiscard]] bool update();

 private:
  void search();

  KernelTree& fs_;
  std::string job_, node_;
  int looks_ = 0;
  int next_search_ = 1;
  int pid_ = 0;
  std::int64_t start_ticks_ = 0;
  int missing_for_ = 0;
};

}  // namespace reveal
