#include "postproc/detect/scan/counter_episodes.h"

#include <algorithm>
#include <cmath>

#include "postproc/detect/scan/scan_block.h"

namespace reveal {

namespace {

Episode episode_of(const CounterBurst& burst, const Channel& channel, const ScanScale& scale) {
  const double seconds = static_cast<double>(burst.end - burst.begin) / scale.samples_per_second;
  Episode episode{.begin = burst.begin,
                  .end = burst.end,
                  .methods = {Method::error_counters},
                  .agreement = 1,
                  .score = kWeakScore + std::log10(std::max(1.0, burst.count / burst.least)),
                  .tier = Tier::strong,
                  .subsystem = channel.subsystem,
                  .second_subsystem = channel.subsystem,
                  .reasons = {}};
  const bool at_start = burst.begin < trimmed_start(scale);
  if (burst.recurring) episode.labels.push_back(Label::recurring);
  if (seconds < kShortSeconds) episode.labels.push_back(Label::brief);
  if (at_start) episode.labels.push_back(Label::edge);
  if (burst.recurring || at_start) {
    episode.tier = Tier::none;
  } else if (seconds < kShortestStrongSeconds && burst.least > 1) {
    episode.tier = Tier::weak;
  }
  episode.reasons = {{.channel = burst.channel,
                      .feature = "mean",
                      .z = burst.count,
                      .observed = burst.observed,
                      .expected = burst.expected,
                      .share = 1}};
  return episode;
}

}  // namespace

void add_counter_bursts(std::span<const CounterBurst> bursts, std::span<const Channel> channels, const ScanScale& scale,
                        std::vector<Episode>& episodes) {
  const std::size_t apart = scale.samples(kApartSeconds);
  for (const CounterBurst& burst : bursts) {
    const auto overlaps = [&](const Episode& episode) {
      return burst.begin < episode.end + apart && episode.begin < burst.end + apart && episode.tier != Tier::none;
    };
    const auto known = std::find_if(episodes.begin(), episodes.end(), overlaps);
    if (known == episodes.end()) {
      episodes.push_back(episode_of(burst, channels[burst.channel], scale));
      continue;
    }
    if (std::find(known->methods.begin(), known->methods.end(), Method::error_counters) == known->methods.end()) {
      known->methods.push_back(Method::error_counters);
      ++known->agreement;
    }
    if (!burst.recurring && known->methods.front() == Method::interval_scan)
      known->tier = Tier::strong;  // two witnesses
  }
}

}  // namespace reveal
