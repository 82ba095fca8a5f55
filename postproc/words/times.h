// Times of day and dates in UTC, for people and for machines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reveal {

/// "2026-11-20T10:32:05.1Z"; as many digits as needed, for machines.
[[nodiscard]] std::string iso_time(std::int64_t utc_ns);
/// "2026-11-20T10:32:05.100Z": each as long as the next, for columns.
[[nodiscard]] std::string iso_milliseconds(std::int64_t utc_ns);
[[nodiscard]] std::optional<std::int64_t> parse_iso_time(std::string_view text) noexcept;

/// "2026-11-20 10:32:05 UTC" and "10:32:05".
[[nodiscard]] std::string date_and_time(std::int64_t utc_ns);
[[nodiscard]] std::string clock_time(std::int64_t utc_ns);
/// "10:33:07 to 10:33:22 UTC", or within a second "10:33:07 UTC"; with dates where that is not on the day of
/// `known_utc_ns`, which the reader knows.
[[nodiscard]] std::string clock_span(std::int64_t begin_utc_ns, std::int64_t end_utc_ns, std::int64_t known_utc_ns);

}  // namespace reveal
