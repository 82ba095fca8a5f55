// The derived metrics of the paper's appendix B (arXiv 2510.26008), and those of turbostat, in one table: what a ratio
// of counters says that the counters alone do not. A trace stores what was measured; these are computed from it, where
// all inputs are there. They are not given to the detectors unless somebody appends them: a ratio of two channels that
// detection sees already would vote twice.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "postproc/telemetry/telemetry.h"

namespace reveal {

inline constexpr std::size_t kMostDerivedInputs = 4;

struct DerivedMetric {
  enum class Over : std::uint8_t { each_instance, all_instances };  // one channel each, or one of their sums

  std::string_view metric;
  std::string_view unit_text;  // "bytes/s": what a plain Unit cannot say
  Unit unit;
  Subsystem subsystem;
  Over over;
  std::string_view formula;  // for the reader; `compute` is what is done
  std::string_view inputs;   // metrics, at most kMostDerivedInputs, with blanks between them
  /// Of one step: counters as increments, gauges as levels, in the order of `inputs`, none of them missing.
  double (*compute)(const double* in, double step_seconds);
  std::string_view source;
};

[[nodiscard]] std::span<const DerivedMetric> derived_metrics();

/// The derived channels alone, on the same grid: for export and for rules that ask for them. A metric with several rows
/// has the first whose inputs were measured. NaN where an input is, and where nothing happened to divide by.
[[nodiscard]] Telemetry derived_channels(const Telemetry& telemetry);

/// Appends them to what was measured.
void append_derived_metrics(Telemetry& telemetry);

}  // namespace reveal
