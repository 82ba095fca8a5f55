// A trace written again: whole after a crash, small after its end.
#pragma once

#include <cstdint>
#include <filesystem>

namespace reveal {

/// Rewrites a `.part` left by a crash as a clean closed trace at `to`. Returns the seconds recovered.
double recover(const std::filesystem::path& part, const std::filesystem::path& to);

/// Up to this size a closed trace is rewritten: half of a short one is what the library needs to survive a crash.
/// Larger ones would take longer than the end of a job may wait.
inline constexpr std::uint64_t kCompactBytes = std::uint64_t{2} << 20;

/// Rewrites a closed trace at `to` with the same content in fewer, longer chunks. Throws Error; `trace` is untouched.
void compact(const std::filesystem::path& trace, const std::filesystem::path& to);

}  // namespace reveal
