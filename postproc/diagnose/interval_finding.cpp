#include "postproc/diagnose/interval_finding.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "postproc/diagnose/job_progress.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

std::size_t sample_at(const RuleContext& context, std::int64_t utc_ns) {
  const double seconds = static_cast<double>(utc_ns - context.telemetry.begin_utc_ns) * 1e-9;
  const auto sample = std::llround(seconds / context.telemetry.step_seconds);
  return static_cast<std::size_t>(std::clamp<long long>(sample, 0, static_cast<long long>(context.telemetry.samples)));
}

/// The estimate, or the work that the job did not do meanwhile. Work that went on takes no estimate back: the rule
/// measured a delay, of which the calls of the job may know nothing.
Impact known_better(const RuleContext& context, const Finding& finding, Impact estimate) {
  if (!estimate.seconds || finding.intervals.size() != 1) return estimate;
  const TimeSpan& span = finding.intervals.front();
  const Interval at{sample_at(context, span.begin_utc_ns), sample_at(context, span.end_utc_ns)};
  auto lost = at.end > at.begin ? lost_work(context, at) : std::nullopt;
  if (!lost || lost->seconds <= 0) return estimate;
  if (estimate.at_most && lost->seconds > *estimate.seconds) return estimate;
  return {.seconds = lost->seconds, .percent = std::nullopt, .how = std::move(lost->how)};
}

void store_impact(const RuleContext& context, Finding& finding, Impact impact) {
  if (impact.seconds) impact.percent = 100 * *impact.seconds / job_seconds(context);
  impact.at_most = impact.at_most && impact.seconds;
  finding.severity = severity_of_loss(impact.seconds.value_or(0), impact.percent.value_or(0),
                                      context.threshold(kMinLostSeconds.name), context.threshold(kMinLostPercent.name));
  finding.impact = std::move(impact);
}

void set_impact(const RuleContext& context, Finding& finding, Impact estimate) {
  if (estimate.seconds && std::isnan(*estimate.seconds)) estimate.seconds.reset();
  if (estimate.seconds && *estimate.seconds <= 0) {
    finding.impact = {.seconds = std::nullopt, .percent = std::nullopt, .how = "none seen: " + estimate.how};
    finding.severity = Severity::info;
    return;
  }
  store_impact(context, finding, known_better(context, finding, std::move(estimate)));
}

}  // namespace

std::vector<Excursion> excursions_of(const RuleContext& context, std::span<const double> series, double min_excess,
                                     double min_score, Cause cause) {
  constexpr double kWindowSeconds = 5;
  constexpr double kDoesMore = 0.25;
  const ExcursionSearch search{.min_excess = min_excess,
                               .min_length = context.steps(context.threshold("min_seconds")),
                               .window = context.steps(kWindowSeconds),
                               .min_score = min_score};
  const auto lasting = cause == Cause::external ? find_lasting_excursions(series, search) : std::vector<Excursion>();
  const std::vector<Interval> all = places(lasting);
  const auto used = lasting.empty() ? std::nullopt : rate(context, "job.cpu_time", 1e-9, "cpus");
  const auto job_does_as_before = [&](const Excursion& each) {
    const auto change = inside_outside(context, used, each.at, all);
    return change && change->excess() <= kDoesMore * change->outside;
  };
  if (!lasting.empty() && std::all_of(lasting.begin(), lasting.end(), job_does_as_before)) return lasting;
  return find_excursions(series, search);
}

Finding finding_at(const RuleContext& context, Interval at, const JobValues& more) {
  Finding finding = context.finding(more);
  finding.intervals = {context.span(at.begin, at.end)};
  return finding;
}

void set_loss(const RuleContext& context, Finding& finding, std::optional<double> seconds, std::string how) {
  set_impact(context, finding, {.seconds = seconds, .percent = std::nullopt, .how = std::move(how)});
}

void set_most_loss(const RuleContext& context, Finding& finding, std::optional<double> seconds, std::string how) {
  set_impact(context, finding, {.seconds = seconds, .percent = std::nullopt, .how = std::move(how), .at_most = true});
}

void set_loss_of_segments(const RuleContext& context, Finding& finding, const std::optional<InsideOutside>& segments,
                          Interval at, Segments which) {
  constexpr double kNoticeable = 0.02;
  const bool received = which == Segments::received;
  const std::string_view verb = received ? "arrived" : "were sent";
  const auto store = [&](std::optional<double> seconds, std::string how) {
    store_impact(context, finding, {.seconds = seconds, .percent = std::nullopt, .how = std::move(how)});
  };
  if (at.length() == context.telemetry.samples) {
    store(std::nullopt, "not known: no part of the run was without it");
  } else if (auto lost = lost_work(context, at); lost && lost->seconds > 0) {
    store(lost->seconds, std::move(lost->how));
  } else if (lost) {
    store(std::nullopt, "none seen: " + lost->how);
  } else if (!segments) {
    store(std::nullopt,
          fmt::format("not known: the rate of {} segments was not measured", received ? "received" : "sent"));
  } else if (segments->fall() > kNoticeable) {
    store(segments->fall() * context.seconds(at.length()),
          fmt::format("{} segments {} per second instead of {}", number(segments->inside), verb,
                      number(segments->outside)));
  } else {
    store(std::nullopt, fmt::format("not known: as many segments {} as usual, but they may have been smaller", verb));
  }
}

Evidence evidence_of(const RuleContext& context, const MetricSeries& signal, const Excursion& excursion) {
  Evidence evidence =
      evidence_of(context, signal, {excursion.inside, excursion.outside, excursion.score}, excursion.at);
  if (std::isnan(excursion.outside)) evidence.expected.reset();
  return evidence;
}

void add_contrast(const RuleContext& context, Finding& finding, const std::optional<MetricSeries>& signal, Interval at,
                  std::span<const Interval> excluded) {
  if (const auto change = inside_outside(context, signal, at, excluded)) {
    finding.evidence.push_back(evidence_of(context, *signal, *change, at));
  }
}

std::vector<Method> seen_by(const std::optional<Confirmation>& confirmed) {
  std::vector<Method> detectors{Method::interval_search};
  if (confirmed) detectors.insert(detectors.end(), confirmed->methods.begin(), confirmed->methods.end());
  return detectors;
}

}  // namespace reveal
