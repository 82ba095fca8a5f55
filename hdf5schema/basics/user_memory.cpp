#include "hdf5schema/basics/user_memory.h"

#include <sys/sysinfo.h>

#include <algorithm>

namespace reveal {

std::uint64_t user_memory_of_node() noexcept {
  constexpr unsigned kShare = 4;
  struct sysinfo node {};
  if (::sysinfo(&node) != 0) return kMostUserMemory;
  return std::min(kMostUserMemory, std::uint64_t{node.totalram} * node.mem_unit / kShare);
}

}  // namespace reveal
