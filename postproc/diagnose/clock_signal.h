// The clock that the job's cpus had while they worked.
#pragma once

#include <optional>

#include "postproc/diagnose/signals.h"

namespace reveal {

/// Counted where the machine allows it, else as the driver reports it; in hertz. Nothing where neither was measured.
[[nodiscard]] std::optional<MetricSeries> clock_of(const RuleContext& context);

/// Heat as the other explanation of a low clock, for a runner-up: whether it was counted at all.
[[nodiscard]] std::string why_no_heat(const RuleContext& context);

}  // namespace reveal
