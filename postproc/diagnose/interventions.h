// Changes that the collector made to the running job, or refused to make, because of a finding (reveal.conf:
// [intervention]). Its events in the trace have the rule as their object; hdf5schema/README.md lists their codes.
#pragma once

#include <vector>

#include "postproc/diagnose/excursion.h"
#include "postproc/diagnose/rule.h"

namespace reveal {

/// The changes for findings of the context's rule, with their measured effects. A refusal only where nothing was
/// changed.
[[nodiscard]] std::vector<InterventionResult> interventions_of(const RuleContext& context);

/// The intervals in which such a change was in force: they do not show what the job does by itself.
[[nodiscard]] std::vector<Interval> changed_by_reveal(const RuleContext& context);

/// The series without the samples in these intervals: they become NaN.
[[nodiscard]] std::vector<double> outside_of(std::vector<double> series, const std::vector<Interval>& intervals);

}  // namespace reveal
