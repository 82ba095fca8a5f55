#include "core/python/process_memory.h"

#include <sys/uio.h>

#include <array>
#include <cerrno>

namespace reveal {

ReadMemory memory_of(pid_t pid) {
  return [pid](std::span<const MemoryPiece> pieces) {
    std::array<iovec, kMostPieces> here{};
    std::array<iovec, kMostPieces> there{};
    if (pieces.size() > kMostPieces) return MemoryRead::unmapped;
    std::size_t wanted = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      here[i] = {pieces[i].into.data(), pieces[i].into.size()};
      there[i] = {reinterpret_cast<void*>(pieces[i].address), pieces[i].into.size()};
      wanted += pieces[i].into.size();
    }
    const ssize_t got = ::process_vm_readv(pid, here.data(), pieces.size(), there.data(), pieces.size(), 0);
    if (got >= 0) return static_cast<std::size_t>(got) == wanted ? MemoryRead::whole : MemoryRead::unmapped;
    if (errno == ESRCH) return MemoryRead::gone;
    return errno == EPERM || errno == ENOSYS ? MemoryRead::refused : MemoryRead::unmapped;
  };
}

}  // namespace reveal
