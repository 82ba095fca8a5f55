// What detectors say: intervals in which a node differed from the rest of its own job.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/basics/enum_names.h"
#include "hdf5schema/vocabulary.h"

namespace reveal {

/// One channel's part in an episode. `z` is signed and in units of the channel's own noise over the job.
struct Reason {
  std::size_t channel = 0;  // index into Telemetry::channels
  std::string feature;      // "mean", "standard_deviation", "autocorrelation_lag_1", "level", ...
  double z = 0;
  double observed = 0;  // mean inside the episode, in the channel's unit (counters: per second)
  double expected = 0;  // mean outside
  double share = 0;     // of all channels' evidence, 0..1
};

/// A channel's part in what one detector says: of the sum of all parts' magnitudes; negative where it speaks against
/// it.
struct ChannelShare {
  std::size_t channel = 0;
  double share = 0;
};
struct DetectorShares {
  std::string method;                  // "MAHA", "KNN", "IF"
  std::vector<ChannelShare> channels;  // by falling magnitude
};

enum class Tier : std::uint8_t { none, notice, finding };

inline constexpr std::string_view kTierNames[] = {"none", "notice", "finding"};
[[nodiscard]] constexpr std::string_view name_of(Tier tier) noexcept {
  return kTierNames[static_cast<std::size_t>(tier)];
}
[[nodiscard]] inline std::optional<Tier> tier_of(std::string_view name) noexcept {
  return enumerator_of<Tier>(kTierNames, name);
}

struct Episode {
  std::size_t begin = 0;  // samples of the grid, end exclusive
  std::size_t end = 0;
  std::size_t first_window = 0;
  std::size_t last_window = 0;
  std::vector<std::string> methods;  // "GAP", "Z", "MAHA", "IF", ...
  int agreement = 0;                 // how many detectors agree
  double score = 0;
  Tier tier = Tier::none;
  std::vector<std::string> labels;  // EDGE, RECURRING, COMMON, SHORT
  Subsystem subsystem = Subsystem::cpu;
  Subsystem second_subsystem = Subsystem::cpu;  // equal to `subsystem` when none is close
  std::vector<Reason> reasons;                  // by falling share
  std::string claim;                            // one sentence in the words of the paper's Table 4
  std::vector<DetectorShares> contributions;    // of episodes that are told; may be empty
};

/// Score of one window, for the report's table and `reveal score`.
struct WindowScore {
  std::size_t begin = 0;
  std::size_t end = 0;  // samples, end exclusive
  double score = 0;
  Tier tier = Tier::none;
  int agreement = 0;
  std::vector<Reason> reasons;  // of all channels, by falling share
};

struct Detection {
  std::vector<Episode> episodes;  // by falling score
  std::vector<WindowScore> windows;
  std::string insufficient;  // why nothing can be said ("14 s were recorded, at least 32 s are needed"), or ""
};

}  // namespace reveal
