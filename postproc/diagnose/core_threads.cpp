#include "postproc/diagnose/core_threads.h"

#include <algorithm>

#include "hdf5schema/basics/text.h"

namespace reveal {

std::vector<std::vector<int>> threads_of_cores(const RuleContext& context) {
  std::vector<std::vector<int>> cores;
  for (const auto& [key, value] : context.begin) {
    if (!key.starts_with("cpu_threads.")) continue;
    std::string_view rest = value;
    for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
      if (auto threads = parse_cpu_list(word); threads.size() > 1) cores.push_back(std::move(threads));
    }
  }
  return cores;
}

std::size_t cores_of(const RuleContext& context, const std::vector<int>& cpus) {
  std::size_t siblings = 0;  // beyond the first of each core
  for (const std::vector<int>& threads : threads_of_cores(context)) {
    const auto here = static_cast<std::size_t>(std::count_if(threads.begin(), threads.end(), [&](int cpu) {
      return std::find(cpus.begin(), cpus.end(), cpu) != cpus.end();
    }));
    siblings += here > 1 ? here - 1 : 0;
  }
  return cpus.size() - std::min(cpus.size(), siblings);
}

}  // namespace reveal
