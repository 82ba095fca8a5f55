// An episode no rule can explain is reported as an open question with its strongest channels.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/job_progress.h"
#include "postproc/diagnose/rule.h"
#include "postproc/diagnose/signals.h"
#include "postproc/telemetry/metric_facts.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::unexplained {
namespace {

constexpr std::size_t kMostReasons = 3;

/// A finding explains an episode if its intervals cover the given part of it. Audits and observations on the whole run
/// explain nothing that begins and ends.
bool explained(const RuleContext& context, TimeSpan episode) {
  const double share = context.threshold("explained_share");
  const TimeSpan run = context.span(0, context.telemetry.samples);
  return std::any_of(context.found.begin(), context.found.end(), [&](const Finding& finding) {
    const bool observation = finding.severity == Severity::info && covers(finding, run, 1);
    return finding.kind != FindingKind::audit && !observation && covers(finding, episode, share);
  });
}

/// Whether the job's own work or waiting changed: otherwise the job was not affected by the episode. Nothing if none of
/// it was measured.
std::optional<bool> felt_by_job(const RuleContext& context, Interval at, std::span<const Interval> all) {
  struct Sign {
    std::optional<MetricSeries> signal;
    double least;  // a change that a person would still call one, in the signal's unit
  };
  const Sign signs[] = {
      {rate(context, "job.cpu_time", 1e-9, "cpus"), 0.02}, {cpu_wait(context), 0.02},
      {level(context, "job.blocked", "processes"), 0.05},  {rate(context, "net.tx_bytes", 1, "bytes/s"), 1e5},
      {rate(context, "net.rx_bytes", 1, "bytes/s"), 1e5},  {rate(context, "process.read_bytes", 1, "bytes/s"), 1e5}};
  std::optional<bool> felt;
  for (const Sign& sign : signs) {
    const auto change = sign.signal ? inside_outside(context, *sign.signal, at, all) : std::nullopt;
    if (!change) continue;
    const double excess = std::abs(change->excess());
    felt = felt.value_or(false) ||
           (std::abs(change->score) >= context.threshold("min_felt_score") && excess >= sign.least &&
            excess >= context.threshold("min_felt") * std::abs(change->outside));
  }
  return felt;
}

/// Reasons whose value changed by this part come first: a level that hardly moves at all leaves the
/// detectors' usual range by a few parts in ten thousand.
std::vector<Reason> clearest(const Episode& episode, double least) {
  std::vector<Reason> reasons = episode.reasons;
  std::stable_partition(reasons.begin(), reasons.end(), [least](const Reason& reason) {
    const double larger = std::max(std::abs(reason.observed), std::abs(reason.expected));
    return std::abs(reason.observed - reason.expected) >= least * larger;
  });
  reasons.resize(std::min(kMostReasons, reasons.size()));
  return reasons;
}

/// How many times as many threads the job had as usual; 1 where it had no more of them. What all threads together wait
/// for a cpu grows as much, though none of them waits longer.
double thread_growth(const RuleContext& context, Interval at, std::span<const Interval> all) {
  const auto change = inside_outside(context, level(context, "job.threads", "threads"), at, all);
  return change && change->outside > 0 ? std::max(1.0, change->inside / change->outside) : 1;
}

/// Whether the job waited longer for cpus or disks than usual; nothing where neither is known.
std::optional<bool> waited_longer(const RuleContext& context, Interval at, std::span<const Interval> all) {
  constexpr double kWaitsMore = 0.05;
  const auto for_cpu = inside_outside(context, cpu_wait(context), at, all);
  const auto for_disk = inside_outside(context, level(context, "job.blocked", "processes"), at, all);
  if (!for_cpu && !for_disk) return std::nullopt;
  return (for_cpu && for_cpu->inside / thread_growth(context, at, all) - for_cpu->outside > kWaitsMore) ||
         (for_disk && for_disk->excess() > kWaitsMore);
}

/// Whether it is a phase: work of the program itself, without waiting.
bool is_phase(const RuleContext& context, const Episode& episode, std::span<const Interval> all) {
  constexpr std::string_view kOfProgram[] = {"process.", "job.", "cgroup."};
  constexpr std::string_view kWaits[] = {"wait", "blocked", "throttled", "outsider", "_some", "_full"};
  const std::string& strongest = context.telemetry.channels.at(episode.reasons.front().channel).metric;
  const auto begins = [&](std::string_view begin) { return strongest.starts_with(begin); };
  const auto contains = [&](std::string_view word) { return strongest.find(word) != std::string::npos; };
  if (std::none_of(std::begin(kOfProgram), std::end(kOfProgram), begins)) return false;
  if (std::any_of(std::begin(kWaits), std::end(kWaits), contains)) return false;
  return !waited_longer(context, {episode.begin, episode.end}, all).value_or(true);
}

/// The job may also have had less to do: an upper bound.
void bound_loss(const RuleContext& context, Interval at, Finding& finding) {
  const auto pace = slower_work(context, at);
  if (!pace) return;
  const double seconds = pace->lost() * context.seconds(at.length());
  finding.impact = {.seconds = seconds,
                    .percent = 100 * seconds / job_seconds(context),
                    .how = pace->words(context.watched()),
                    .at_most = true};
}

std::vector<Finding> check(const RuleContext& context) {
  if (!context.detection.insufficient.empty()) throw Unavailable(context.detection.insufficient);
  std::vector<Finding> findings;
  std::vector<Interval> all;
  for (const Episode& episode : context.detection.episodes) {
    if (episode.tier == Tier::strong) all.push_back({episode.begin, episode.end});
  }
  for (const Episode& episode : context.detection.episodes) {
    if (episode.tier != Tier::strong || has_label(episode, Label::edge) || episode.reasons.empty()) continue;
    const TimeSpan span = context.span(episode.begin, episode.end);
    if (explained(context, span)) continue;
    Finding finding = context.finding();
    finding.severity = Severity::notice;
    finding.confidence = Confidence::possible;
    finding.subsystem = episode.subsystem;
    finding.intervals = {span};
    finding.impact.how = "not known: no rule explains the effect on the job";
    if (!felt_by_job(context, {episode.begin, episode.end}, all).value_or(true)) {
      finding.severity = Severity::info;
      finding.impact.how = "none seen: the job's computing, waiting, reading and sending did not change";
    } else if (const auto pace = work_that_went_on(context, {episode.begin, episode.end});
               pace && !waited_longer(context, {episode.begin, episode.end}, all).value_or(false)) {
      finding.severity = Severity::info;
      finding.impact.how = fmt::format("none seen: the {} calls (sockets included) of {} moved as much as usual",
                                       pace->calls, context.watched());
    }
    const bool phase = is_phase(context, episode, all);
    if (phase) {
      finding.severity = Severity::info;
      finding.impact.how = "none seen: the job waited no longer than usual";
    }
    if (finding.severity == Severity::notice) bound_loss(context, {episode.begin, episode.end}, finding);
    std::string changes;
    for (const Reason& reason : clearest(episode, context.threshold("min_felt"))) {
      const Channel& channel = context.telemetry.channels.at(reason.channel);
      Evidence evidence;
      evidence.metric = channel.metric;
      evidence.instance = channel.instance;
      evidence.node = context.telemetry.node;
      evidence.feature = reason.feature;
      evidence.observed = reason.observed;
      evidence.expected = reason.expected;
      evidence.unit = unit_of(channel);
      evidence.span = span;
      evidence.detectors = episode.methods;
      evidence.score = reason.z;
      changes += fmt::format("{}{} {} instead of {}", changes.empty() ? "" : ", ", channel.name(),
                             quantity_of(channel.metric, reason.observed, evidence.unit),
                             quantity_of(channel.metric, reason.expected, evidence.unit));
      finding.evidence.push_back(std::move(evidence));
    }
    const std::string length = duration(context.seconds(episode.end - episode.begin));
    finding.sentence =
        phase ? fmt::format("The program on {} did something else for {}: {}.", context.telemetry.node, length, changes)
              : fmt::format("For {}, {} deviated from the rest of the job; no known cause matched: {}.", length,
                            context.telemetry.node, changes);
    findings.push_back(std::move(finding));
  }
  return findings;
}

const RegisteredRule kRule{{
    .id = "anomaly.unexplained",
    .title = "Something changed that no rule explains",
    .looks_for = "Intervals that the detectors found and no other rule explains, if the job's own pace, waiting or "
                 "traffic changed in them.",
    .kind = FindingKind::anomaly,
    .states = Stated::difference,
    .subsystem = Subsystem::cpu,
    .order = 1000,
    .look_alikes = "",
    .proof = Proof::test_double,
    .thresholds = {{"explained_share", 0.3, "ratio",
                    "least part of an episode that the findings of a rule cover to explain it"},
                   {"min_felt", 0.05, "ratio",
                    "least change of the job's own pace, waiting or traffic that is reported"},
                   {"min_felt_score", 3, "sd", "least distance of that change from the usual level"}},
    .user_remedy =
        {"reveal show --episodes NEXT_RUN   # after another run: an interval at the same point of the program "
         "belongs to the program, others to the node"},
    .verify = {.command = "reveal show --episodes NEXT_RUN",
               .where = "after the next run",
               .expected = "no such interval; one at the same point of the program belongs to the program"},
    .sources = {"https://arxiv.org/abs/2510.26008"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::unexplained
