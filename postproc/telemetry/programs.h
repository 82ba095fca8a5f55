// The programs in the places in which processes of the job are measured one by one ("rank0", "slot3"), by the
// collector's events.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/trace.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// A part of a job, on the clock of its events.
struct EventSpan {
  std::int64_t begin_ns = INT64_MIN;
  std::int64_t end_ns = INT64_MAX;
};

/// The program that was in the place meanwhile; "" if none is known, or if there were several.
[[nodiscard]] std::string program_in(std::span<const Event> events, std::string_view place, EventSpan at = {});

/// Sets the program of each channel of a process.
void name_programs(std::span<const Event> events, EventSpan at, std::span<Channel> channels);

/// "python3 (rank 2)", "python3 (rank 2) on gpu1" where the channel's program is known, else its instance.
[[nodiscard]] std::string instance_in_words(const Channel& channel);

}  // namespace reveal
