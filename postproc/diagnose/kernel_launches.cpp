#include "postproc/diagnose/kernel_launches.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "postproc/diagnose/called_functions.h"

namespace reveal {

std::optional<KernelLaunches> kernel_launches(const RuleContext& context, Interval at) {
  // Very many calls may be counted in their first second only, and the use of a GPU shows a second later.
  constexpr double kBefore = 2;
  at.begin -= std::min(at.begin, context.steps(kBefore));
  KernelLaunches all;
  std::map<std::string, double> by_process;
  for (const CallLibrary library : {CallLibrary::cuda, CallLibrary::cuda_driver}) {
    const auto rates = [&](std::string_view metric, CallRole role) {
      return counted_rates(context, metric, at,
                           [=](const CallFacts& facts) { return facts.role == role && facts.library == library; });
    };
    for (const auto& [process, graphs] : rates("stack.calls", CallRole::launches_many)) {
      if (graphs > 0) return std::nullopt;
    }
    for (const auto& [process, launches] : rates("stack.calls", CallRole::launches)) {
      double& most = by_process[process];
      most = std::max(most, launches);
    }
    for (const auto& [process, nanoseconds] : rates("stack.time", CallRole::launches)) {
      if (nanoseconds * 1e-9 <= all.share) continue;
      all.share = nanoseconds * 1e-9;
      all.process = process;
    }
  }
  for (const auto& [process, launches] : by_process) all.rate += launches;
  return all.rate > 0 ? std::optional(all) : std::nullopt;
}

}  // namespace reveal
