// The cpus that are hardware threads of the same core.
#pragma once

#include <vector>

#include "postproc/diagnose/rule.h"

namespace reveal {

/// The cpus of each core that has several; empty where no core has, or the trace does not have them.
[[nodiscard]] std::vector<std::vector<int>> threads_of_cores(const RuleContext& context);

/// Cores that these cpus are threads of: a cpu without a sibling is one.
[[nodiscard]] std::size_t cores_of(const RuleContext& context, const std::vector<int>& cpus);

}  // namespace reveal
