// What is computed from several measured channels, in one table: what detectors look at beside what was measured, the
// metrics of the paper's appendix B (arXiv 2510.26008), and those of turbostat. A trace stores what was measured; these
// are computed where all their inputs are there, and missing where an input is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "postproc/telemetry/outsider_cpu.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// The family of derived channels.
inline constexpr std::string_view kDerivedFamily = "derived";

/// At most this many are appended for the detectors.
inline constexpr std::size_t kDerivedChannels = 16;

inline constexpr std::size_t kMostDerivedInputs = 5;

struct DerivedMetric {
  /// Whether a value is computed from the sums of all instances' inputs, from their means, or for each instance.
  enum class Over : std::uint8_t { each_instance, all_instances, all_and_each, mean_and_each };

  std::string_view metric;
  std::string_view unit_text;  // "bytes/s": what a plain Unit cannot say
  Unit unit;
  Subsystem subsystem;
  Over over;
  std::string_view formula;  // for the reader; `compute` is what is done
  std::string_view inputs;   // metrics, with blanks between them
  /// Computes one step: counters as increments, gauges as levels, in the order of `inputs`, none of them missing.
  double (*compute)(const double* in, double step_seconds);
  std::string_view source;
  /// Detectors, peers, history and rules look at the whole node's, too. The others are multiples of one channel, or of
  /// one that is here: they would vote twice.
  std::optional<Scope> detected_scope = std::nullopt;
  /// Computes a whole series, instead of `compute`, and with any number of inputs.
  std::vector<double> (*series)(const Telemetry&, DerivedState&) = nullptr;
};

[[nodiscard]] std::span<const DerivedMetric> derived_metrics();

/// Appends those that detectors look at; a job that comes in pieces keeps the state.
void append_derived(Telemetry& telemetry, DerivedState& state);
void append_derived(Telemetry& telemetry);

/// The metrics that a channel of append_derived() is computed from; none for a metric that is measured.
[[nodiscard]] std::vector<std::string_view> inputs_of_derived(std::string_view metric);

/// All others, on the same grid, for export. A metric with several rows has the first whose inputs were measured. NaN
/// where an input is, and where nothing happened to divide by.
[[nodiscard]] Telemetry derived_channels(const Telemetry& telemetry);

/// Appends them to what was measured.
void append_derived_metrics(Telemetry& telemetry);

}  // namespace reveal
