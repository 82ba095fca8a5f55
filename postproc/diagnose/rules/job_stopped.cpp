// Processes of the job stood still because a signal or a debugger held them: a person did this, no load explains it.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::job_stopped {
namespace {

/// A process that is stopped and continued in step with the samples is seen stopped in a part of that time only. The
/// effect on the whole job begins and ends with it.
Interval as_long_as_its_effect(const RuleContext& context, Interval seen) {
  constexpr double kInside = 0.8;
  constexpr std::size_t kMostTimes = 4;
  for (const Episode& episode : context.detection.episodes) {
    const Interval theirs{episode.begin, episode.end};
    if (episode.tier == Tier::none || theirs.length() > kMostTimes * seen.length()) continue;
    if (static_cast<double>(overlap(seen, theirs)) < kInside * static_cast<double>(seen.length())) continue;
    return {std::min(seen.begin, theirs.begin), std::max(seen.end, theirs.end)};
  }
  return seen;
}

std::vector<Finding> check(const RuleContext& context) {
  const MetricSeries stopped =
      needed(level(context, "job.stopped", "processes"), "job.stopped (state T in /proc/PID/stat)");
  const auto used = rate(context, "job.cpu_time", 1e-9, "cpus");
  const auto found = excursions_of(context, over_seconds(context, stopped.values), context.threshold("min_stopped"), 0,
                                   Cause::external);
  const std::vector<Interval> all = places(found);
  std::vector<Finding> findings;
  for (const Excursion& excursion : found) {
    const Interval at = as_long_as_its_effect(context, excursion.at);
    const double length = context.seconds(at.length());
    const double share = mean_inside(stopped.values, at);
    Finding finding = finding_at(context, at);
    finding.confidence = Confidence::certain;
    // Nothing may wait for a process that stands still: the cost is measured by the job's own use of cpus.
    const auto change = inside_outside(context, used, at, all);
    const double slowed = change ? change->fall() : 0;
    finding.impact.how =
        change ? "none seen: the job used its cpus as before" : "not known: the cpu time of the job was not measured";
    finding.severity = Severity::notice;
    if (slowed > context.threshold("min_slowed")) {
      set_loss(context, finding, std::min({1.0, share, slowed}) * length,
               fmt::format("the job used {} instead of {} while a process was stopped", counted(change->inside, "cpu"),
                           number(change->outside)));
      // The job's own progress may show a greater loss than the samples show stops.
      if (finding.impact.seconds.value_or(0) > share * length) {
        finding.impact.how += "; this is longer than the stops that were seen, as it was slower between them, too";
      }
    }
    // They were stopped on purpose, so this is not urgent.
    finding.severity = std::min(finding.severity, Severity::warning);
    Evidence evidence = evidence_of(context, stopped, {share, excursion.outside, 0}, at);
    evidence.detectors = {Method::kernel_state};
    finding.evidence.push_back(std::move(evidence));
    if (change) finding.evidence.push_back(evidence_of(context, *used, *change, at));
    finding.sentence =
        share > 1
            ? fmt::format("A signal or a debugger stopped {} of the job on {} on average, for {}.",
                          quantity(share, "processes"), context.telemetry.node, duration(length))
            : fmt::format(
                  "A signal or a debugger stopped processes of the job on {} for at least {} in total, within {}.",
                  context.telemetry.node, duration(share * length), duration(length));
    finding.runner_up = {"", "a waiting process sleeps (state S) and is not stopped (state T)"};
    findings.push_back(std::move(finding));
  }
  return findings;
}

const RegisteredRule kRule{{
    .id = "job.stopped",
    .title = "Processes of the job were stopped",
    .looks_for = "Intervals in which processes of the job were in state T or t, stopped by a signal or held by a "
                 "debugger (job.stopped).",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::process,
    .order = 10,
    .look_alikes = "a process that waits",
    .proof = Proof::real,
    .thresholds = {{"min_stopped", 0.05, "processes", "least mean number of stopped processes"},
                   {"min_seconds", 2, "s", "shortest interval"},
                   {"min_slowed", 0.02, "ratio", "least fall of the job's cpu time from which it counts as cost"},
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {"ps -o pid,stat,wchan,cmd -u \"$USER\"   # on {node}, in the next run: T is stopped by a signal, t "
                    "by a debugger",
                    "sacct -X -j {job} -o JobID,State,Elapsed,Suspended   # more than 0: Slurm suspended the job"},
    .advice = {{"If the administrators did not suspend the job, look for a program that sends SIGSTOP, or a debugger. "
                "kill -CONT with the number of a process that is still stopped lets it run again.",
                kIf}},
    .verify = {.expected = "job.stopped is 0"},
    .sources = {"https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::job_stopped
