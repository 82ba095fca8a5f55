// The output of `reveal compare`.
#pragma once

#include <string>

#include "postproc/compare/job_comparison.h"

namespace reveal {

[[nodiscard]] std::string comparison_as_text(const JobComparison& comparison, const TextStyle& style);
/// Schema reveal.compare/1.
[[nodiscard]] std::string comparison_as_json(const JobComparison& comparison);

/// "SLOWER", in colour where there is some.
[[nodiscard]] std::string headline_of(TimeChange change, const TextStyle& style);

}  // namespace reveal
