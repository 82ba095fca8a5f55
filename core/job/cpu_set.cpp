#include "core/job/cpu_set.h"

#include <sched.h>

#include <array>
#include <cerrno>
#include <vector>

#include "core/kernel_text/kernel_words.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

// As sched_setaffinity(2) takes them: a cpu_set_t has room for 1,024 only.
constexpr std::size_t kBitsOfWord = 8 * sizeof(unsigned long);
using KernelCpus = std::array<unsigned long, CpuSet::kMost / kBitsOfWord>;

}  // namespace

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

std::string CpuSet::list() const {
  std::vector<int> cpus;
  for (std::size_t cpu = 0; cpu < kMost; ++cpu) {
    if (members_[cpu]) cpus.push_back(static_cast<int>(cpu));
  }
  return format_cpu_list(cpus);
}

int CpuSet::bind_thread(int tid) const noexcept {
  if (members_.none()) return EINVAL;
  KernelCpus words{};
  for (std::size_t cpu = 0; cpu < kMost; ++cpu) {
    if (members_[cpu]) words[cpu / kBitsOfWord] |= 1UL << (cpu % kBitsOfWord);
  }
  return ::sched_setaffinity(tid, sizeof words, reinterpret_cast<const cpu_set_t*>(words.data())) == 0 ? 0 : errno;
}

std::optional<CpuSet> CpuSet::of_thread(int tid) noexcept {
  KernelCpus words{};
  if (::sched_getaffinity(tid, sizeof words, reinterpret_cast<cpu_set_t*>(words.data())) != 0) return std::nullopt;
  CpuSet set;
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (std::size_t bit = 0; words[i] != 0 && bit < kBitsOfWord; ++bit)
      set.members_[i * kBitsOfWord + bit] = (words[i] >> bit & 1UL) != 0;
  }
  return set;
}

}  // namespace reveal
