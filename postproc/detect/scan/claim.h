// One sentence about an episode: in the words of the paper's Table 4, or in plain words with two numbers and a unit.
#pragma once

#include <span>
#include <string>

#include "postproc/detect/episode.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// "CPU busy percentage shows different within-window variance relative to baseline."
[[nodiscard]] std::string paper_claim(const Channel& channel, const Reason& reason);

/// "CPU user time of cpu1 rose to 0.98 cpus from 0.43 cpus for 15.6 s."
[[nodiscard]] std::string plain_claim(const Channel& channel, const Reason& reason, double seconds);

/// A sentence about the strongest reason of the episode's subsystem, if possible one that needs no peer; "" when no
/// reason is of the subsystem.
[[nodiscard]] std::string claim_of(const Episode& episode, std::span<const Channel> channels, double step_seconds);

}  // namespace reveal
