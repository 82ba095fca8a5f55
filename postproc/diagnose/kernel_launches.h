// Launches of kernels into GPUs by the job's processes, where they were counted (stack.*: --stack).
#pragma once

#include <optional>
#include <string>

#include "postproc/diagnose/rule.h"
#include "postproc/diagnose/signals.h"

namespace reveal {

struct KernelLaunches {
  double rate = 0;      // per second, of all processes
  std::string process;  // that was in them for the longest time; "": the time was not measured
  double share = 0;     // part of its time
};

/// A call of the runtime is one of the driver, too: in each process, the layer with more of them counts. The driver's
/// also shows those of a runtime that is linked in, but its functions may rest.
/// Nothing where none was counted, and where graphs were launched, too: a launch of a graph starts any number of
/// kernels.
[[nodiscard]] std::optional<KernelLaunches> kernel_launches(const RuleContext& context, Interval at);

/// Row of the tables of rules about GPUs that have too little to do.
inline constexpr Threshold kMinLaunching{
    "min_launching", 0.25, "s/s", "part of a process's time in launches of kernels from which its GPU waits for these"};

}  // namespace reveal
