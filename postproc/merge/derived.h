// Channels computed from several measured ones. They are missing where any input is missing.
#pragma once

#include <cstddef>
#include <optional>

#include "postproc/merge/telemetry.h"

namespace reveal {

/// At most this many are appended.
inline constexpr std::size_t kDerivedChannels = 8;

/// What the first piece of a job decides for all of it.
struct DerivedState {
  std::optional<bool> interrupts_are_charged;  // to whoever was running: see outsider_cpu()
};

void append_derived(Telemetry& telemetry, DerivedState& state);
/// Of a job in one piece.
void append_derived(Telemetry& telemetry);

}  // namespace reveal
