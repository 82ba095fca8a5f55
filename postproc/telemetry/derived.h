// Channels computed from several measured ones. They are missing where any input is missing.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// At most this many are appended.
inline constexpr std::size_t kDerivedChannels = 8;

/// Of the channels appended.
inline constexpr std::string_view kDerivedFamily = "derived";

/// What the first piece of a job decides for all of it.
struct DerivedState {
  std::optional<bool> interrupts_are_charged;  // to whoever was running: see outsider_cpu()
};

void append_derived(Telemetry& telemetry, DerivedState& state);
/// The metrics that `derived` is computed from; none for a metric that is measured.
[[nodiscard]] std::span<const std::string_view> inputs_of_derived(std::string_view derived);
/// Of a job in one piece.
void append_derived(Telemetry& telemetry);

}  // namespace reveal
