// Rows of a family that the collector read faster at times (FamilySpec::faster), as if it had not: one row for each
// period of the wall clock. Such rows can be compared with those of other times, and each weighs as much.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "hdf5schema/trace.h"

namespace reveal {

/// Number, since 1970, of the period that ends at or after `monotonic_ns`. Times are rounded to `finer`, which divides
/// the period.
[[nodiscard]] std::int64_t wall_period(std::int64_t monotonic_ns, std::int64_t utc_minus_monotonic_ns,
                                       std::chrono::nanoseconds period, std::chrono::nanoseconds finer) noexcept;

/// Whether a row and the one after it may belong to one period: a row of a late tick is as far from the next one as
/// from the one before, extra rows are close together.
[[nodiscard]] bool are_close(std::int64_t time_ns, std::int64_t next_ns, std::chrono::nanoseconds period) noexcept;

/// Whether a row and the one after it belong to one period.
[[nodiscard]] bool in_one_period(std::int64_t time_ns, std::int64_t next_ns, std::int64_t utc_minus_monotonic_ns,
                                 std::chrono::nanoseconds period, std::chrono::nanoseconds finer) noexcept;

/// Merges the rows between two usual ones into the later one: increments add up, of levels the last known one stays.
/// `values`: [channel][row]. Nothing changes in a family that is never read faster.
void merge_extra_rows(const FamilySpec& spec, std::int64_t utc_minus_monotonic_ns, std::vector<std::int64_t>& times,
                      std::vector<double>& values);

}  // namespace reveal
