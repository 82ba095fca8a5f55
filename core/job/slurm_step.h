// slurmstepd, Slurm's daemon for one step on one node: its job and step.
#pragma once

#include <string>
#include <string_view>

#include "core/kernel_text/kernel_tree.h"

namespace reveal {

inline constexpr std::string_view kStepDaemon = "slurmstepd";
inline constexpr std::string_view kNodeDaemon = "slurmd";

struct StepDaemon {
  enum class State { gone, nameless, named };
  State state = State::gone;
  std::string job;   // "4711"
  std::string step;  // "extern", "batch", "0"
  std::string node;  // if several slurmd share a kernel and their control groups contain the node's name, else ""
};

/// From its command line, "slurmstepd: [4711.batch]", which it writes there itself a while after its start; where that
/// has too little room, from Slurm's control groups.
[[nodiscard]] StepDaemon read_step_daemon(KernelTree& fs, int pid);

}  // namespace reveal
