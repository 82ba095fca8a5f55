// The training steps of one node's ranks, small enough for its summary: when they began, in points of a few steps each,
// and where they took longer than usual. The ranks of all nodes are held against each other by it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "postproc/diagnose/effective_rule.h"
#include "postproc/telemetry/load.h"
#include "postproc/telemetry/python_samples.h"

namespace reveal {

/// When the steps of one rank began.
struct StepTrend {
  std::string rank;
  std::int64_t steps = 0;         // seen
  std::int64_t point_steps = 1;   // a power of two; point i has the steps i * point_steps + 1 to (i + 1) * point_steps
  std::int64_t first_point = 0;   // first point in `begins`
  std::int64_t begin_utc_ns = 0;  // begin of the first point: the mean begin of its steps
  std::string begins;             // microseconds from each point to the next; "-": not all were seen
  bool operator==(const StepTrend&) const = default;
};

/// Steps of one rank that took longer than the others of it.
struct SlowSteps {
  std::string rank;
  std::int64_t first = 0, last = 0;  // numbers
  std::int64_t begin_utc_ns = 0, end_utc_ns = 0;
  double score = 0;  // in the spread of the others
  double seconds = 0, usual_seconds = 0;
  std::optional<double> waiting, usual_waiting;  // time of each step in calls that wait for other ranks or the GPU
  std::optional<double> cpu, usual_cpu;          // cpu time of the process, for each step
  std::optional<double> communication, usual_communication;  // time of each step with a collective of gloo under way
  std::optional<double> gc, usual_gc;                        // time of each step in Python's garbage collector
  /// Time of each step in which the main thread waited for PyTorch's data loader, from its samples; the standard error
  /// is that of the growth.
  std::optional<double> input, usual_input, input_error;
  bool operator==(const SlowSteps&) const = default;

  [[nodiscard]] double steps() const { return static_cast<double>(last - first + 1); }
  [[nodiscard]] double extra() const { return seconds - usual_seconds; }
};

struct StepHistory {
  std::vector<StepTrend> ranks;
  std::vector<SlowSteps> slow;
  bool operator==(const StepHistory&) const = default;
};

/// `telemetry` is that of the trace, or the same with longer steps of the grid. `rule` is stack.slow_steps; `python`
/// are the samples of the trace.
[[nodiscard]] StepHistory step_history_of(const NodeTrace& trace, const Telemetry& telemetry, const EffectiveRule& rule,
                                          std::span<const PythonSamples> python = {});

/// Begins by point, in seconds UTC; NaN where they are not known. The first one is `trend.first_point`'s.
[[nodiscard]] std::vector<double> begins_of(const StepTrend& trend);

}  // namespace reveal
