// The clock that the job's cpus had while they worked.
#pragma once

#include <optional>

#include "postproc/diagnose/signals.h"

namespace reveal {

/// Counted where the machine allows it, else as the driver reports it; in hertz. Nothing where neither was measured.
[[nodiscard]] std::optional<MetricSeries> clock_of(const RuleContext& context);

}  // namespace reveal
