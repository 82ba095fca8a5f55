// What the collector takes of the node's memory beside the job.
#pragma once

namespace reveal {

/// At the start of the program: freed memory goes back to the node. One arena for all threads, of which only the
/// writer allocates, and large blocks of their own.
void keep_little_memory() noexcept;

/// When the start is over: what it has freed, and pages of program and libraries that only it needed. They come back
/// from the page cache when they are used.
void give_back_memory() noexcept;

}  // namespace reveal
