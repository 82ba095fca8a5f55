// A trace written again: whole after a crash, small after its end.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace reveal {

/// Rewrites a `.part` left by a crash as a clean closed trace at `to`, with the segment before it if there is one.
/// Returns the seconds recovered, when `to` is on the disk and was read back.
double recover(const std::filesystem::path& part, const std::filesystem::path& to);

/// The same of any trace, as the group `group` ("nodes/n03") of the file `to`, which exists.
void copy_into(const std::filesystem::path& trace, const std::filesystem::path& to, const std::string& group);

/// The data that a rewritten trace keeps.
struct Retention {
  /// full: everything. rolling: the rows of the last `keep`, of this segment and the one before. summary: one row a
  /// minute (minute_trace.h).
  enum class Form : std::uint8_t { full, rolling, summary };
  Form form = Form::full;
  std::chrono::nanoseconds keep{0};
};

/// "full", "summary", "rolling=30min" (at least a minute); nothing if it is none of them.
[[nodiscard]] std::optional<Retention> parse_retention(std::string_view text);

/// Rewrites a closed trace at `to` in fewer, longer chunks; false, and nothing done, where it is too large. When it
/// returns, `to` is on the disk and was read back, row by row. Throws Error; its input is untouched.
bool compact(const std::filesystem::path& trace, const std::filesystem::path& to, const Retention& retention = {});

}  // namespace reveal
