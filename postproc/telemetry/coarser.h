// A job's telemetry with longer steps.
#pragma once

#include <cstddef>
#include <span>

#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// `factor` samples in one; a rest of fewer is left out. A level becomes the mean of its samples; a counter's
/// increments are extrapolated from the present samples to the whole step, so that a gap does not look like a pause.
/// NaN where none is present.
[[nodiscard]] Telemetry coarser(const Telemetry& telemetry, std::size_t factor);
/// The same into an earlier result, or an empty one.
void make_coarser(const Telemetry& telemetry, std::size_t factor, Telemetry& coarse);

/// One series.
void lengthen_steps(std::span<const double> values, std::size_t factor, Kind kind, std::span<double> out);

}  // namespace reveal
