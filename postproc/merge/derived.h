// Channels computed from several measured ones. They are missing where any input is missing.
#pragma once

#include <cstddef>

#include "postproc/merge/telemetry.h"

namespace reveal {

/// At most this many are appended.
inline constexpr std::size_t kDerivedChannels = 8;

void append_derived(Telemetry& telemetry);

}  // namespace reveal
