// The findings of the rules before this one, in attribution order, on the node.
#pragma once

#include <algorithm>
#include <string_view>

#include "postproc/diagnose/excursion.h"
#include "postproc/diagnose/rule.h"

namespace reveal {

[[nodiscard]] inline bool found_before(const RuleContext& context, std::string_view id) {
  return std::any_of(context.found.begin(), context.found.end(), [id](const Finding& one) { return one.id == id; });
}

/// Whether a finding for which `counts` is true overlaps the interval.
template <typename Counts>
[[nodiscard]] bool found_beside(const RuleContext& context, Interval at, const Counts& counts) {
  const TimeSpan span = context.span(at.begin, at.end);
  const auto overlaps = [&span](const TimeSpan& theirs) { return theirs.overlaps(span); };
  return std::any_of(context.found.begin(), context.found.end(), [&](const Finding& one) {
    return counts(one) && std::any_of(one.intervals.begin(), one.intervals.end(), overlaps);
  });
}

}  // namespace reveal
