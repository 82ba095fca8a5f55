// Counts the allocations of this thread: the test program's own operator new.
#pragma once

#include <cstddef>

namespace reveal {

void count_allocations(bool on) noexcept;
[[nodiscard]] std::size_t allocations_counted() noexcept;

}  // namespace reveal
