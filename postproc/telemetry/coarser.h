// A job's telemetry with longer steps.
#pragma once

#include <cstddef>
#include <span>

#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// One longer step from its samples: a level's mean; a counter's increments extrapolated from the present samples to
/// the whole step, so that a gap does not look like a pause. NaN when none is present.
[[nodiscard]] double longer_step(std::span<const double> samples, Kind kind);

/// `factor` samples in one; a rest of fewer is left out.
[[nodiscard]] Telemetry coarser(const Telemetry& telemetry, std::size_t factor);
/// The same into an earlier result, or an empty one.
void make_coarser(const Telemetry& telemetry, std::size_t factor, Telemetry& coarse);

/// One series.
void lengthen_steps(std::span<const double> values, std::size_t factor, Kind kind, std::span<double> out);

}  // namespace reveal
