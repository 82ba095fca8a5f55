// Channels computed from several measured ones, in one table: additional channels for detectors, the metrics of the
// paper's appendix B (arXiv 2510.26008), and those of turbostat. A trace stores measured channels; these are computed
// if all their inputs are there, and missing where an input is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// The family of derived channels.
inline constexpr std::string_view kDerivedFamily = "derived";

/// At most this many are appended for the detectors.
inline constexpr std::size_t kDerivedChannels = 16;

inline constexpr std::size_t kMostDerivedInputs = 5;

/// Computes one derived channel of a job's pieces, which follow each other.
using DerivedSeries = std::function<std::vector<double>(const Telemetry& piece)>;

struct DerivedMetric {
  /// Whether a value is computed from the sums of all instances' inputs, from their means, or for each instance.
  enum class Over : std::uint8_t { each_instance, all_instances, all_and_each, mean_and_each };

  std::string_view metric;
  std::string_view unit_text;  // "bytes/s": a unit that Unit does not have
  Unit unit;
  Subsystem subsystem;
  Over over;
  std::string_view formula;  // for the reader; `compute` is the computation
  std::string_view inputs;   // metrics, with blanks between them
  /// Computes one step: counters as increments, gauges as levels, in the order of `inputs`, none of them missing.
  double (*compute)(const double* in, double step_seconds);
  std::string_view source;
  /// Detectors, peers, history and rules look at the whole node's, too. Without a scope, it is for export alone. Most
  /// of these are sums or multiples of channels that detectors have, and would vote twice. Three are not:
  /// pmu.memory_operations_per_cycle, pmu.cache_misses_per_instruction and net.utilization; detectors have other ratios
  /// of the same counters or the bytes themselves, and no measurement has shown that these three find more.
  std::optional<Scope> detected_scope = std::nullopt;
  /// Instead of `compute`, with any number of inputs, which it looks up in the job's first piece; null where an input
  /// was not measured.
  DerivedSeries (*series)(const Telemetry& first_piece) = nullptr;
};

[[nodiscard]] std::span<const DerivedMetric> derived_metrics();

/// The derived channels of one job. A metric with several rows uses the first one with measured inputs. NaN where an
/// input is, and where nothing happened to divide by.
class DerivedChannels {
 public:
  /// The channels for detectors; or all others, for export.
  enum class Which : std::uint8_t { detected, others };
  explicit DerivedChannels(Which which = Which::detected) : which_(which) {}

  /// To each piece of the job, in order: all have the channels of the first one, in which inputs are looked up.
  void append_to(Telemetry& piece);

  struct Row {
    Channel channel;
    DerivedSeries series;
  };

 private:
  Which which_;
  std::optional<std::vector<Row>> rows_;
};

/// Appends those that detectors look at to a job in one piece.
void append_derived(Telemetry& telemetry);

/// The metrics that a channel of append_derived() is computed from; none for a metric that is measured.
[[nodiscard]] std::vector<std::string_view> inputs_of_derived(std::string_view metric);

}  // namespace reveal
