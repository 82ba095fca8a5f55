// Facts about single metrics that are not in a trace: their names in sentences, the units in which people read them,
// and the meaning of their changes. One table, a row per metric; everything else about a metric is in its trace.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "postproc/telemetry/telemetry.h"
#include "postproc/words/quantity.h"

namespace reveal {

/// The meaning of a node that differs from its peers in this metric.
enum class PeerMeaning : std::uint8_t {
  unsaid,  // as `node`
  work,    // how much the node was given to do: a rank that logs, loads, writes checkpoints or launches has more
  node,    // how well it does it
};

struct MetricFact {
  /// The origin of the row. Names of metrics in other data sets, and parts of names that some kernel or driver may use,
  /// match no metric of ours.
  enum class Of : std::uint8_t { ours, other_data, any_name };

  std::string_view metric;         // "cpu.user"; "disk.read*" is a prefix; "*drop*" a part, in any case of letters
  std::string_view words = {};     // where the metric's own name would puzzle the reader
  std::string_view compared = {};  // the name in comparisons of two nodes, if it is another one
  std::string_view unit = {};      // if it does not follow from the kind and the unit of the channel
  std::string_view shown = {};     // in sentences, where people read it in another unit than any of these
  double shown_factor = 0;         // its factor then, if not 1
  std::string_view meter = {};     // label in `reveal watch`
  std::string_view meter_unit = {};
  int prune_rank = 0;            // among correlated metrics, the paper's pipeline keeps the lowest rank
  double error_count = 0;        // an error counter: the count from which a burst is reported
  bool summed_in_paper = false;  // the paper's examples of events that are counted per window
  bool usual_timeline = false;   // drawn if no finding has others
  PeerMeaning peers = PeerMeaning::unsaid;
  Of of = Of::ours;
};

/// The first row that matches a metric and has a value for the fact, gives it.
[[nodiscard]] std::span<const MetricFact> metric_facts();
[[nodiscard]] bool matches(const MetricFact& row, std::string_view metric);

template <typename T>
[[nodiscard]] T fact_of(std::string_view metric, T MetricFact::*fact) {
  for (const MetricFact& row : metric_facts()) {
    if (row.*fact != T{} && matches(row, metric)) return row.*fact;
  }
  return T{};
}

/// "CPU user time", or the metric's own name.
[[nodiscard]] std::string_view words_for(std::string_view metric);

/// The same within a sentence that compares two nodes: "cpu clock", "time of a disk read".
[[nodiscard]] std::string compared_words(std::string_view metric);

/// Whether values on the grid are increments, and shown as a rate.
[[nodiscard]] bool per_second(const Channel& channel);

/// The channel's base unit, "/s" appended for rates: "ns/s", "bytes"; that of detectors and of report.json.
[[nodiscard]] std::string unit_of(const Channel& channel);

/// The unit a person reads, and the factor from values on the grid.
[[nodiscard]] std::pair<std::string, double> shown_unit(const Channel& channel, double step_seconds);

/// The same for a value in `unit`, as unit_of() names it.
[[nodiscard]] Scale shown_as(std::string_view metric, std::string_view unit);

/// A value in `unit` (as of unit_of) in the unit a person reads: "0.98 cpus".
[[nodiscard]] std::string quantity_of(std::string_view metric, std::optional<double> value, std::string_view unit);

/// Two of them in one unit: {"0.98 cpus", "0.43 cpus"}.
[[nodiscard]] std::pair<std::string, std::string> quantities_of(std::string_view metric, double first, double second,
                                                                std::string_view unit);

/// A level that depends on earlier jobs of the node: free memory, page cache.
[[nodiscard]] bool is_carried_over(const Channel& channel);

}  // namespace reveal
