// Bytes of another process's memory, read while it runs on: they may change under the read, and nothing in them is
// believed. https://man7.org/linux/man-pages/man2/process_vm_readv.2.html
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace reveal {

struct MemoryPiece {
  std::uint64_t address = 0;
  std::span<std::byte> into;
};

enum class MemoryRead : std::uint8_t {
  whole,
  unmapped,  // something of it is not there
  refused,   // another user's process, a container's, or one that the kernel's Yama protects
  gone,      // the process has ended
};

/// All pieces by one system call, at most kMostPieces.
using ReadMemory = std::function<MemoryRead(std::span<const MemoryPiece>)>;
inline constexpr std::size_t kMostPieces = 64;

[[nodiscard]] ReadMemory memory_of(pid_t pid);

}  // namespace reveal
