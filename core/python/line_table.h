// On which line of its file an instruction of a CPython code object is. The table is a job's memory: it may be
// anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/python/python_layout.h"

namespace reveal {

/// `instruction`: bytes behind the first one; negative, before it: the line on which the function begins. 0: not known.
[[nodiscard]] int line_of(LineTable kind, std::span<const std::byte> table, int first_line,
                          std::int64_t instruction) noexcept;

}  // namespace reveal
