// How a rule that searches a signal of its own reports a finding: search, interval, loss and evidence, in one way for
// all of them. A rule itself has only its signals, its condition and its sentence.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "postproc/diagnose/signals.h"

namespace reveal {

/// Rows of the rules' tables of thresholds that mean the same everywhere.
inline constexpr Threshold kMinScore{"min_score", 4, "sd",
                                     "least deviation from the usual level, in standard deviations"};
inline constexpr Threshold kMinLostSeconds{"min_lost_seconds", 1, "s",
                                           "lost run time from which it is a warning; below it, a notice"};
inline constexpr Threshold kMinLostPercent{"min_lost_percent", 0.5, "percent",
                                           "lost share of the run from which it is a warning"};

/// Where the series stands above its usual level, which is never below 0, for the rule's min_seconds at least. `cause`:
/// a disturbance by others is an event even if it takes most of the time; unless the job itself does more then, for it
/// has phases, too.
enum class Cause : std::uint8_t { job, external };
[[nodiscard]] std::vector<Excursion> excursions_of(const RuleContext& context, std::span<const double> series,
                                                   double min_excess, double min_score, Cause cause = Cause::job);

/// Returns a finding with the rule's texts and this interval.
[[nodiscard]] Finding finding_at(const RuleContext& context, Interval at, const JobValues& more = {});

/// Impact, and severity by the rule's min_lost_seconds and min_lost_percent. Without `seconds` no loss was seen, and
/// `how` states that; if they are 0, `how` becomes the reason why none was seen.
/// `seconds` are the rule's estimate by its own signal. The work that the job did not do in the finding's interval
/// replaces it where it is known: the time that a thread waited for a cpu is less than the time that its job lost if
/// the other threads waited for that thread. No cost is added where the rule saw none: the job may have had less to do.
void set_loss(const RuleContext& context, Finding& finding, std::optional<double> seconds, std::string how);
/// The same of seconds that the job lost at most: known work replaces them only if it is less.
void set_most_loss(const RuleContext& context, Finding& finding, std::optional<double> seconds, std::string how);

/// A job that exchanges the same data in every step makes progress as its segments arrive, or leave, though not where
/// these become smaller: its own work decides where it is known, and as many segments are no proof that nothing was
/// lost.
enum class Segments : std::uint8_t { received, sent };
void set_loss_of_segments(const RuleContext& context, Finding& finding, const std::optional<InsideOutside>& segments,
                          Interval at, Segments which = Segments::received);

/// An excursion without a usual level (NaN) has no expected value.
[[nodiscard]] Evidence evidence_of(const RuleContext& context, const MetricSeries& signal, const Excursion& excursion);
/// Appends the signal's change in the interval, if it was measured inside and outside.
void add_contrast(const RuleContext& context, Finding& finding, const std::optional<MetricSeries>& signal, Interval at,
                  std::span<const Interval> excluded);

/// The rule's own search, and the general detectors that saw the same.
[[nodiscard]] std::vector<Method> seen_by(const std::optional<Confirmation>& confirmed);

}  // namespace reveal
