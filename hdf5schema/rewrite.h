// A trace written again: whole after a crash, small after its end.
#pragma once

#include <cstdint>
#include <filesystem>

namespace reveal {

/// Rewrites a `.part` left by a crash as a clean closed trace at `to`. Returns the seconds recovered.
double recover(const std::filesystem::path& part, const std::filesystem::path& to);

/// Up to this many values a closed trace is rewritten: half of a short one is what the library needs to survive a
/// crash. Larger ones would take longer than the end of a job may wait.
inline constexpr std::uint64_t kCompactValues = std::uint64_t{12} << 20;

/// Rewrites a closed trace at `to` with the same content in fewer, longer chunks; false, and nothing done, where it is
/// too large. Throws Error; `trace` is untouched.
bool compact(const std::filesystem::path& trace, const std::filesystem::path& to);

}  // namespace reveal
