// The figures of report.html that need no script: drawn as SVG inside the page.
#pragma once

#include <string>

#include "postproc/report/report.h"

namespace reveal {

/// The phases of the job as a strip above its timeline, or the reason why there are none; "" in an earlier report.
[[nodiscard]] std::string phases_figures(const Report& report);

/// Small multiples of a few metrics on several nodes, with the nodes that differ in colour; "" without them.
[[nodiscard]] std::string across_section(const Report& report);

/// Run times of earlier runs and of this one, as dots; "" if there are fewer than two.
[[nodiscard]] std::string earlier_runs_figure(const Report& report);

}  // namespace reveal
