// Files that a collector writes beside its trace under hidden names, and that stay there if it is killed meanwhile.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>

namespace reveal {

inline constexpr std::string_view kCompactHalf = ".compact";  // the closed trace, in fewer bytes
inline constexpr std::string_view kNextHalf = ".next";        // the segment that begins
inline constexpr std::string_view kLastHalf = ".last";        // a second name of the segment that ends
inline constexpr std::array kTraceHalves = {kCompactHalf, kNextHalf, kLastHalf};

/// "jobs/.n1.h5.compact" of "jobs/n1.h5".
[[nodiscard]] inline std::filesystem::path trace_half(const std::filesystem::path& trace, std::string_view ending) {
  return trace.parent_path() / ("." + trace.filename().string().append(ending));
}

}  // namespace reveal
