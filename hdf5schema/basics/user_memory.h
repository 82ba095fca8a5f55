// The memory of the processes that reveal runs as a job's user on a node, all of them together.
#pragma once

#include <cstdint>

namespace reveal {

inline constexpr std::uint64_t kMostUserMemory = std::uint64_t{2} << 30;  // bytes

/// A quarter of this node's memory, and at most kMostUserMemory.
[[nodiscard]] std::uint64_t user_memory_of_node() noexcept;

}  // namespace reveal
