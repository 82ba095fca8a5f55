// From one node's trace to its summary: detect, ask every rule, keep what the job's report needs.
#pragma once

#include <filesystem>

#include "postproc/analysis/node_summary.h"
#include "postproc/analysis/parallel.h"
#include "postproc/diagnose/analysis_settings.h"
#include "postproc/diagnose/rule.h"
#include "postproc/telemetry/load.h"

namespace reveal {

[[nodiscard]] NodeSummary analyse(const NodeTrace& trace, const AnalysisSettings& settings);

/// Loads, analyses and frees the trace, as soon as the budget has room for it. `threads`: of all nodes
/// together. Throws Error.
[[nodiscard]] NodeSummary analyse_file(const std::filesystem::path& trace, const AnalysisSettings& settings,
                                       MemoryBudget& budget, std::size_t threads);

}  // namespace reveal
