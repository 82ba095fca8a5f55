#include "core/snapshot/planned_iterations.h"

#include <algorithm>
#include <string>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::string_view kVariable = "REVEAL_ITERATIONS=";
constexpr std::int64_t kPeriod = 10 * kSecond;
constexpr int kMostLooks = 60;
constexpr std::int64_t kMost = 1'000'000'000'000;

}  // namespace

std::int64_t planned_iterations_in(std::string_view environ) noexcept {
  while (!environ.empty()) {
    std::string_view entry = environ.substr(0, environ.find('\0'));
    environ.remove_prefix(std::min(entry.size() + 1, environ.size()));
    if (!entry.starts_with(kVariable)) continue;
    entry.remove_prefix(kVariable.size());
    const std::int64_t number = parse_int(entry).value_or(0);
    return number > 0 && number <= kMost ? number : 0;
  }
  return 0;
}

std::int64_t PlannedIterations::look(std::int64_t now_ns, const Job& job) {
  if (known_ != 0 || looks_ == kMostLooks || now_ns < next_ns_ || fs_.recorded()) return known_;
  next_ns_ = now_ns + kPeriod;
  ++looks_;
  const JobProcess* busiest = nullptr;
  for (const auto& process : job.processes()) {
    if (process->launcher || job.is_keeper(*process)) continue;
    if (busiest == nullptr || process->weight > busiest->weight) busiest = process.get();
  }
  if (busiest == nullptr) return 0;
  known_ = planned_iterations_in(fs_.unrecorded_text("/proc/" + std::to_string(busiest->pid) + "/environ"));
  return known_;
}

}  // namespace reveal
