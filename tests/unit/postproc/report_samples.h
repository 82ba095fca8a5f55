// Reports as jobs really produce them, for the tests of the three renderers.
#pragma once

#include <string>
#include <vector>

#include "postproc/report/report.h"

namespace reveal::samples {

struct Sample {
  std::string name;  // name of the golden files
  Report report;
};

[[nodiscard]] Report outsider(double timeline_step_seconds);
[[nodiscard]] Report healthy();
[[nodiscard]] Report failed();  // on a healthy node
[[nodiscard]] Report insufficient();
[[nodiscard]] Report many_nodes();
[[nodiscard]] Report hostile();
[[nodiscard]] Report chain();  // one disturbance, and its effects

/// A job of so many nodes, of which `odd` ones differ, as the merge makes it: bounded wherever a report is bounded.
[[nodiscard]] Report large(std::size_t nodes, std::size_t odd);

/// All of them, with timelines short enough to be read in a diff.
[[nodiscard]] std::vector<Sample> all();

/// REVEAL_PAGES=DIR keeps whole pages, to be looked at in a browser.
void keep_page(const std::string& name, const std::string& page);

}  // namespace reveal::samples
