// The cpu time that somebody else used on the cpus of the job.
#pragma once

#include <optional>
#include <vector>

#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// What the first piece of a job decides for all of it.
struct DerivedState {
  std::optional<bool> interrupts_are_charged;  // to whoever was running: see outsider_cpu()
};

/// Busy time of the cpus the job may use, less the job's own and ours: cpus used by somebody else. Interrupt time is
/// nobody's, except on kernels without CONFIG_IRQ_TIME_ACCOUNTING, which charge it to whoever was running: there the
/// residual of a job with network traffic is far below zero (measured: -0.3 cpus), and interrupts count as busy.
/// Empty where an input is not measured at all.
[[nodiscard]] std::vector<double> outsider_cpu(const Telemetry& telemetry, DerivedState& state);

}  // namespace reveal
