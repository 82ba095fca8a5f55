// The figures of report.html that need no script: drawn as SVG inside the page.
#pragma once

#include <string>

#include "postproc/report/report.h"

namespace reveal {

/// Small multiples of a few metrics on several nodes, with the nodes that differ in colour; "" without them.
[[nodiscard]] std::string across_section(const Report& report);

/// Run times of earlier runs and of this one, as dots; "" if there are fewer than two.
[[nodiscard]] std::string earlier_runs_figure(const Report& report);

}  // namespace reveal
