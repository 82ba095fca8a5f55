// The channels that make an interval unusual, and the subsystem to which they belong. Uses all channels, also those
// left out of detection as near copies: the copy may carry the name that explains.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "postproc/detect/episode.h"
#include "postproc/detect/scan/interval_scan.h"
#include "postproc/detect/scan/reference_means.h"
#include "postproc/detect/scan/scan_series.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// Reasons kept per episode and window unless every channel is requested.
inline constexpr std::size_t kMaxReasons = 20;

/// A claim is about the strongest reason of the subsystem, or about one with so much of its share and a plainer
/// sentence.
inline constexpr double kClaimShare = 0.5;

struct Attribution {
  Subsystem subsystem = Subsystem::cpu;
  Subsystem second_subsystem = Subsystem::cpu;
  std::vector<Reason> reasons;  // by falling share
};

/// `offset`: sample of the telemetry where the scan input begins; the interval counts from there. `filled`: reasons
/// with their levels; those that a claim may be about have them anyway.
[[nodiscard]] Attribution attribute(const Telemetry& telemetry, ReferenceMeans& reference,
                                    const SeriesCorrelation& correlation, std::size_t offset,
                                    const ScoredInterval& interval, std::size_t filled);

/// Sets Reason::observed and expected from the telemetry: means inside and outside, counters per second.
void fill_levels(const Telemetry& telemetry, std::size_t begin, std::size_t end, std::span<Reason> reasons);

inline constexpr std::size_t kSubsystemCount = static_cast<std::size_t>(Subsystem::self) + 1;

/// The subsystem with the largest share, and the largest of the others if it is close; else the first one again.
[[nodiscard]] std::pair<Subsystem, Subsystem> leading_subsystems(const std::array<double, kSubsystemCount>& shares);

/// Turns evidence per channel into shares and sorts by them; ties keep the channels' order.
void sort_by_share(std::vector<Reason>& reasons);

}  // namespace reveal
