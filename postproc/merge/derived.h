// Channels computed from several measured ones. They are missing where any input is missing.
#pragma once

#include <cstddef>
#include <string_view>

#include "postproc/merge/telemetry.h"

namespace reveal {

/// At most this many are appended.
inline constexpr std::size_t kDerivedChannels = 8;

/// Of the channels appended.
inline constexpr std::string_view kDerivedFamily = "derived";

void append_derived(Telemetry& telemetry);

}  // namespace reveal
