// The collector's use of the node's memory.
#pragma once

namespace reveal {

/// Call it at the start of the program: freed memory then goes back to the node. All threads share one arena, since
/// only the writer allocates; large blocks get mappings of their own.
void keep_little_memory() noexcept;

/// Call it when the start is over: gives back freed memory, and pages of program and libraries that only the start
/// needed. They come back from the page cache when they are used.
void give_back_memory() noexcept;

}  // namespace reveal
