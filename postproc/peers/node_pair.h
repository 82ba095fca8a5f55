// Two nodes that do the same work, without a third one to compare with. Their telemetry shows that they are in
// different states, where the work of both is alike; it does not show which of them is the unusual one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/effective_rule.h"
#include "postproc/peers/node_profile.h"

namespace reveal {

inline constexpr std::string_view kPairRule = "node.pair_differs";
/// A setting: names of the job's GPUs on a node.
inline constexpr std::string_view kGpuModels = "gpu.models";
/// Why its findings cannot name a node, unless earlier runs show which of the two is unusual.
inline constexpr std::string_view kNoMajority =
    "Two nodes are no majority: this run does not show which of them is the unusual one.";

/// A quantity in which two nodes of one job should agree, whatever one of them does beside the work they share: time
/// that a node takes from its job, or the state it is in. Amounts of work are none of these.
struct PairMetric {
  enum class Worse : std::uint8_t { less, more };

  std::string_view metric;
  std::string_view rules = {};  // rules that explain it, if they found something on the worse node alone
  std::string_view model = {};  // the setting by which nodes differ in it by nature
  std::string_view per = {};    // divided by it: a time for each request, a share of all segments
  std::string_view name = {};   // name of the quotient among more than two nodes
  Worse worse = Worse::more;
  double factor = 1;      // least ratio of the larger to the smaller value
  double difference = 0;  // in the shown unit, at least
  /// Metrics that both must have alike, else the difference may follow from them: the worse node's value, as a part of
  /// the other's, is between least_work and most_work. One metric, or several.
  std::string_view work = {};
  double least_work = 0.85;
  double most_work = 1.18;
  double least_per = 0;        // least divisor of a quotient
  double scale = 1;            // scale of a quotient
  std::string_view unit = {};  // likewise; else that of the metric
};

[[nodiscard]] std::span<const PairMetric> pair_metrics();
/// The row of a metric; null if it has none.
[[nodiscard]] const PairMetric* pair_metric(std::string_view metric);

/// One number of levels by their metrics, NaN where one is not known.
[[nodiscard]] double value_of(const PairMetric& metric, const std::function<double(std::string_view)>& level);

struct PairDifference {
  const PairMetric* metric = nullptr;
  Subsystem subsystem = Subsystem::cpu;
  std::string unit;
  double first = 0, second = 0;
  bool first_is_worse = false;
};

/// Compares two nodes in the time that both were measured; in the order of the table. `rule` is node.pair_differs.
[[nodiscard]] std::vector<PairDifference> pair_differences(const NodeProfile& first, const NodeProfile& second,
                                                           const EffectiveRule& rule);

/// The effect of a setting in which nodes differ: nothing, that it may make one slower, or that it does.
enum class SettingWeight : std::uint8_t { none, may_slow, slows };
[[nodiscard]] SettingWeight weight_of_setting(const std::string& key);

/// Whether the first setting only follows from the second: the mitigation of each flaw of a processor follows from the
/// option for all of them.
[[nodiscard]] bool follows_from(std::string_view key, std::string_view other) noexcept;

inline constexpr std::string_view kMemorySetting = "memory.total";
/// Whether two values of a setting are equal. Of two nodes with the same modules, the kernel has a little more memory
/// on one: firmware reserves memory for itself, the management controller and devices, by different amounts. A module
/// more or less is a larger part: no node has a hundred.
[[nodiscard]] bool is_same_setting(std::string_view key, std::string_view value, std::string_view other);

struct PairSetting {
  std::string key, first, second;
};

/// Settings that are known to matter and are not the same; by key.
[[nodiscard]] std::vector<PairSetting> pair_settings(const NodeProfile& first, const NodeProfile& second);

}  // namespace reveal
