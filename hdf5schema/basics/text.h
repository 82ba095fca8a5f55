// Text without copies: number parsing for kernel files, and the near miss for a mistyped word.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reveal {

/// Cuts the next line off `rest`; the line has no '\n'. False at the end.
[[nodiscard]] bool next_line(std::string_view& rest, std::string_view& line) noexcept;

/// Cuts the next blank-separated word off `rest`; empty at the end.
[[nodiscard]] std::string_view next_word(std::string_view& rest) noexcept;
[[nodiscard]] std::vector<std::string> split_words(std::string_view text);
[[nodiscard]] bool has_word(std::string_view text, std::string_view wanted) noexcept;

/// A whole decimal int64 (values beyond int64 saturate to its maximum; anything else is nothing).
[[nodiscard]] std::optional<std::int64_t> parse_int(std::string_view word) noexcept;

/// Kernel lists: "0-3,8,10-11" -> {0,1,2,3,8,10,11}. Malformed parts are left out; at most 65,536 members.
[[nodiscard]] std::vector<int> parse_cpu_list(std::string_view text);

/// {0,1,2,3,8} -> "0-3,8".
[[nodiscard]] std::string format_cpu_list(std::span<const int> cpus);

/// "100ms", "1s", "2.5s", "3min", "500us" -> duration; a bare number is not accepted.
[[nodiscard]] std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text) noexcept;

/// "2GB", "500 MB", "1048576" -> bytes, in powers of 1000; nothing for anything else.
[[nodiscard]] std::optional<std::uint64_t> parse_bytes(std::string_view text) noexcept;

/// "cpu,memory" or "cpu+memory" -> {cpu, memory}; empty parts are left out.
[[nodiscard]] std::vector<std::string> split_names(std::string_view list, std::string_view separators = ",+");

/// The candidate at the smallest edit distance, if it is near enough to be a typing error.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace reveal
