// The result of detectors: intervals in which a node differed from the rest of its own job.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/basics/enum_names.h"
#include "hdf5schema/vocabulary.h"

namespace reveal {

/// The detector or the source of an interval or a fact. Each name stands for one detector, because reports print it.
enum class Method : std::uint8_t {
  interval_scan,  // these find intervals
  error_counters,
  robust_z,  // the ensemble of window detectors: it confirms them, and attributes its score to channels
  robust_mahalanobis,
  robust_forest,
  neighbours,
  level_neighbours,
  layer_mixture,
  paper_z,  // only in the pipeline `paper`
  paper_mahalanobis,
  paper_forest,
  interval_search,  // in findings alone: a rule's search in its own signal
  kernel_counter,
  kernel_state,
  driver_counter,
  driver_event,
  own_request,
  snapshot,
  environment,
  peer_comparison,
  run_history,
};
inline constexpr std::string_view kMethodNames[] = {"GAP",
                                                    "COUNT",
                                                    "R-Z",
                                                    "R-MAHA",
                                                    "R-IF",
                                                    "KNN",
                                                    "KNN-L",
                                                    "GMM",
                                                    "Z",
                                                    "MAHA",
                                                    "IF",
                                                    "interval search",
                                                    "kernel counter",
                                                    "kernel state",
                                                    "driver counter",
                                                    "driver event",
                                                    "the collector's own request",
                                                    "snapshot",
                                                    "environment",
                                                    "PEERS",
                                                    "HISTORY"};
[[nodiscard]] constexpr std::string_view name_of(Method method) noexcept {
  return kMethodNames[static_cast<std::size_t>(method)];
}
[[nodiscard]] inline std::optional<Method> method_of(std::string_view name) noexcept {
  return enumerator_of<Method>(kMethodNames, name);
}

/// Why an interval may be no news.
enum class Label : std::uint8_t {
  edge,       // the job's start or tear-down
  common,     // the peers show it, too
  recurring,  // it happened more than once
  brief,
};
inline constexpr std::string_view kLabelNames[] = {"EDGE", "COMMON", "RECURRING", "SHORT"};
[[nodiscard]] constexpr std::string_view name_of(Label label) noexcept {
  return kLabelNames[static_cast<std::size_t>(label)];
}
[[nodiscard]] inline std::optional<Label> label_of(std::string_view name) noexcept {
  return enumerator_of<Label>(kLabelNames, name);
}

/// The names in reports.
template <typename Enum>
[[nodiscard]] std::vector<std::string> names_of(const std::vector<Enum>& all) {
  std::vector<std::string> names;
  names.reserve(all.size());
  for (const Enum one : all) names.emplace_back(name_of(one));
  return names;
}

/// One channel's part in an episode. `z` is signed and in units of the channel's own noise over the job.
struct Reason {
  std::size_t channel = 0;  // index into Telemetry::channels
  std::string feature;      // "mean", "standard_deviation", "autocorrelation_lag_1", "level", ...
  double z = 0;
  double observed = 0;  // mean inside the episode, in the channel's unit (counters: per second)
  double expected = 0;  // mean outside
  double share = 0;     // share of all channels' evidence, 0..1
};

/// A channel's part in one detector's score, as a share of the sum of all magnitudes; negative where the channel lowers
/// the score.
struct ChannelShare {
  std::size_t channel = 0;
  double share = 0;
};
struct DetectorShares {
  Method method = Method::robust_mahalanobis;
  std::vector<ChannelShare> channels;  // by falling magnitude
};

/// How clearly an interval stands out; a finding is the result of a rule.
enum class Tier : std::uint8_t { none, weak, strong };

inline constexpr std::string_view kTierNames[] = {"none", "weak", "strong"};
[[nodiscard]] constexpr std::string_view name_of(Tier tier) noexcept {
  return kTierNames[static_cast<std::size_t>(tier)];
}
[[nodiscard]] inline std::optional<Tier> tier_of(std::string_view name) noexcept {
  constexpr std::string_view kFormerNames[] = {"none", "notice", "finding"};  // in older reports
  const auto tier = enumerator_of<Tier>(kTierNames, name);
  return tier ? tier : enumerator_of<Tier>(kFormerNames, name);
}

template <typename Labelled>
[[nodiscard]] bool has_label(const Labelled& episode, Label label) {
  return std::find(episode.labels.begin(), episode.labels.end(), label) != episode.labels.end();
}

struct Episode {
  std::size_t begin = 0;  // samples of the grid, end exclusive
  std::size_t end = 0;
  std::size_t first_window = 0;
  std::size_t last_window = 0;
  std::vector<Method> methods;  // that which found it comes first
  int agreement = 0;            // how many detectors agree
  double score = 0;
  Tier tier = Tier::none;
  std::vector<Label> labels;
  Subsystem subsystem = Subsystem::cpu;
  Subsystem second_subsystem = Subsystem::cpu;  // equal to `subsystem` when none is close
  std::vector<Reason> reasons;                  // by falling share
  std::string claim;                            // one sentence in the words of the paper's Table 4
  std::vector<DetectorShares> contributions;    // only for reported episodes; may be empty
};

/// Score of one window, for the report's table and `reveal score`.
struct WindowScore {
  std::size_t begin = 0;
  std::size_t end = 0;  // samples, end exclusive
  double score = 0;
  Tier tier = Tier::none;
  int agreement = 0;
  std::vector<Reason> reasons;  // reasons from all channels, by falling share
};

struct Detection {
  std::vector<Episode> episodes;  // by falling score
  std::vector<WindowScore> windows;
  std::string insufficient;  // why there is no result ("14 s were recorded, at least 32 s are needed"), or ""
};

}  // namespace reveal
