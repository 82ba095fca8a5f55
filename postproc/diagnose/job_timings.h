// The job's own clock (--stack) as evidence for a rule about hosts or networks: how long its training steps or its
// collectives took in the rule's interval, against the rest of the run.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "postproc/diagnose/excursion.h"
#include "postproc/diagnose/finding.h"
#include "postproc/diagnose/rule.h"

namespace reveal {

/// Durations in the order of time, as of the steps of a rank.
struct JobTiming {
  std::string node, metric, instance, feature;
  std::vector<double> ns;         // NaN where none is known
  Interval at;                    // the disturbed ones
  std::vector<Interval> unusual;  // not compared with those
  std::size_t window = 1;         // how many are averaged to know how much they vary
};

/// Returns the timing that grew most clearly. Nothing where none took clearly longer than usual, where the interval is
/// all of the run, or where that is not known: then a report has no line about it.
[[nodiscard]] std::optional<Evidence> grown_timing(std::span<const JobTiming> timings, const TimeSpan& span);

/// Adds the growth of a collective's time to the evidence, or that of the training steps, where one of them grew.
void add_job_timing(const RuleContext& context, Finding& finding, Interval at, std::span<const Interval> unusual);

}  // namespace reveal
