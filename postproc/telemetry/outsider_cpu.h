// The cpu time that other processes used on the cpus of the job.
#pragma once

#include "postproc/telemetry/derived.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// Busy time of the cpus the job may use, less the job's own and ours: cpus used by other processes. Interrupt time is
/// not counted, except on kernels without CONFIG_IRQ_TIME_ACCOUNTING, which charge it to the task that was running:
/// there the residual of a job with network traffic is far below zero (measured: -0.3 cpus), and interrupts count as
/// busy. The first piece decides that for the whole job.
[[nodiscard]] DerivedSeries outsider_cpu(const Telemetry& first_piece);

}  // namespace reveal
