#include "core/job/cpu_set.h"

#include <sched.h>

#include "core/kernel_text/kernel_words.h"

namespace reveal {

CpuSet CpuSet::of_list(std::string_view list) noexcept {
  CpuSet set;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find_first_of(",\n"), list.size());
    std::string_view part = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    part = cut_word(part);
    const std::size_t dash = std::min(part.find('-'), part.size());
    std::int64_t first = 0;
    std::int64_t last = 0;
    if (!parse_counter(part.substr(0, dash), first)) continue;
    last = first;
    if (dash < part.size() && !parse_counter(part.substr(dash + 1), last)) continue;
    for (; first <= last && first < static_cast<std::int64_t>(kMost); ++first) {
      set.members_.set(static_cast<std::size_t>(first));
    }
  }
  return set;
}

void CpuSet::bind_this_process() const noexcept {
  cpu_set_t* cpus = members_.any() ? CPU_ALLOC(kMost) : nullptr;
  if (cpus == nullptr) return;
  const std::size_t size = CPU_ALLOC_SIZE(kMost);
  CPU_ZERO_S(size, cpus);
  for (std::size_t cpu = 0; cpu < kMost; ++cpu) {
    if (members_[cpu]) CPU_SET_S(cpu, size, cpus);
  }
  ::sched_setaffinity(0, size, cpus);
  CPU_FREE(cpus);
}

}  // namespace reveal
