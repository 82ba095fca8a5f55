// Each member of a report once: its name in report.json, and how an unknown one is written.
#pragma once

#include "postproc/diagnose/remedy.h"
#include "postproc/diagnose/rule.h"
#include "postproc/json/json_fields.h"
#include "postproc/report/report.h"
#include "postproc/report/wording.h"

namespace reveal {

/// Units of the numbers with a key that does not name one, by key.
[[nodiscard]] const Json& units_of_keys();

/// An empty list is left out: few reports have it.
template <class V, class T>
void if_any(V& v, std::string_view key, T& list) {
  if (!kLeavesOutEmpty<V> || !list.empty()) v(key, list);
}

/// The same, without those of a kind of a later version.
template <class V, class T>
void if_any_known(V& v, std::string_view key, T& list) {
  if (!kLeavesOutEmpty<V> || !list.empty()) v.known(key, list);
}

/// Values that follow from others, for readers of the JSON: others compute them.
template <class V>
inline constexpr bool kIsForOthers = std::same_as<std::remove_cvref_t<V>, JsonWriter>;

[[nodiscard]] inline std::vector<std::string> names_of_kinds(const std::vector<RemedyStep>& steps) {
  std::vector<std::string> names;
  names.reserve(steps.size());
  for (const RemedyStep& step : steps) names.emplace_back(name_of(step.kind));
  return names;
}

void fields(auto& v, Visited<decltype(v), TimeSpan>& span) {
  v.time("begin", span.begin_utc_ns);
  v.time("end", span.end_utc_ns);
}

void fields(auto& v, Visited<decltype(v), ReportJob>& job) {
  v.word("id", job.id);
  v.word("array", job.array);
  v.word("het", job.het);
  v("restart", job.restart, "not recorded");
  v.word("name", job.name);
  v.word("user", job.user);
  v.word("cluster", job.cluster);
  v("nodes", job.nodes);
  v("nodes_missing", job.nodes_missing);
  v.time("begin", job.begin_utc_ns);
  v.time("end", job.end_utc_ns);
  v.word("state", job.state);
  v("exit_code", job.exit_code, "not recorded");
  v("ran_seconds", job.ran_seconds, "not recorded");
  v("oom_kills", job.oom_kills);
  v.word("command", job.command);
  v.word("run_key", job.run_key);
  if_any(v, "trace_ids", job.trace_ids);
  v.pairs("tags", job.tags, "key", "value");
}

void fields(auto& v, Visited<decltype(v), Coverage>& probe) {
  v("name", probe.probe);
  v.name("state", probe.state, coverage_state_of);
  v("reason", probe.reason);
}

void fields(auto& v, Visited<decltype(v), NodeCoverage>& coverage) {
  v("nodes", coverage.nodes);
  v("samples_expected", coverage.samples_expected, coverage.note);
  v("samples_present", coverage.samples_present, coverage.note);
  v("clock_error_seconds", coverage.clock_error_seconds, coverage.note);
  v("probes", coverage.probes);
  v.word("note", coverage.note);
}

void fields(auto& v, Visited<decltype(v), JobTotals>& totals) {
  v.word("node", totals.node);
  v("nodes_measured", totals.nodes);
  for (const TotalsNumber& total : kTotalsNumbers) v.noted(total.key, totals.*total.value, totals.notes);
}

void fields(auto& v, Visited<decltype(v), NodeOverhead>& overhead) {
  v("node", overhead.node);
  v.explained("cpu_percent_of_core", overhead.cpu_percent_of_core, overhead.reason);
  v.explained("bytes_per_second", overhead.bytes_per_second, overhead.reason);
  v.explained("late_ticks", overhead.late_ticks, overhead.reason);
  v.explained("channels", overhead.channels, overhead.reason);
}

void fields(auto& v, Visited<decltype(v), NodeFasterReading>& faster) {
  v("node", faster.node);
  v("interval_count", faster.intervals);
  v("seconds", faster.seconds);
  v("reading_count", faster.readings);
  v("from_first_to_last", faster.from_first_to_last);
  v("probes", faster.probes);
}

void fields(auto& v, Visited<decltype(v), LocalityPlace>& place) {
  v("numa_node", place.numa, "the firmware does not report it");
  v.word("cpus", place.cpus);
  v.word("job_cpus", place.job_cpus);
  v("gpus", place.gpus);
  v("networks", place.networks);
  v("interrupts", place.interrupts);
  v("processes", place.processes);
}

void fields(auto& v, Visited<decltype(v), LocalityMap>& map) {
  v("node", map.node);
  v("places", map.places);
  v.word("note", map.note);
}

void fields(auto& v, Visited<decltype(v), PythonPlace>& place) {
  v("place", place.place);
  v("samples_present", place.samples);
}

void fields(auto& v, Visited<decltype(v), PythonThread>& thread) {
  v("node", thread.node);
  v("process", thread.process);
  v("samples_present", thread.samples);
  v("places", thread.places);
}

void fields(auto& v, Visited<decltype(v), Verdict>& verdict) {
  v.name("status", verdict.status, verdict_status_of);
  v.word("primary", verdict.primary);
  v("sentence", verdict.sentence);
  v("job_failed", verdict.job_failed);
}

void fields(auto& v, Visited<decltype(v), Evidence>& evidence) {
  v("metric", evidence.metric);
  v("instance", evidence.instance);
  v("node", evidence.node);
  v("feature", evidence.feature);
  v("observed", evidence.observed);
  v("expected", evidence.expected, "no expected value is known");
  v("unit", evidence.unit);
  v.inlined(evidence.span);
  v.names("detectors", evidence.detectors, method_of);
  v("score", evidence.score, "not found by a detector");
}

void fields(auto& v, Visited<decltype(v), Impact>& impact) {
  v("seconds", impact.seconds, impact.how);
  v("percent", impact.percent, impact.how);
  v.word("how", impact.how);
  v("at_most", impact.at_most);
}

void fields(auto& v, Visited<decltype(v), RunnerUp>& runner_up) {
  v("id", runner_up.id);
  v("why_not", runner_up.why_not);
}

void fields(auto& v, Visited<decltype(v), Remedy>& remedy) {
  v("user", remedy.user);
  v("advice", remedy.advice);
  v("admin", remedy.admin);
  v("verify", remedy.verify);
}

void fields(auto& v, Visited<decltype(v), InterventionEffect>& effect) {
  v("metric", effect.metric);
  v("unit", effect.unit);
  v("mean_before", effect.mean_before, "not measured");
  v("mean_after", effect.mean_after, "not measured");
  v("change_low", effect.change_low, "too few seconds were measured");
  v("change_high", effect.change_high, "too few seconds were measured");
}

void fields(auto& v, Visited<decltype(v), InterventionResult>& result) {
  v("node", result.node);
  v.inlined(result.span);
  v.name("outcome", result.outcome, intervention_outcome_of);
  v("sentence", result.sentence);
  v("effects", result.effects);
}

void fields(auto& v, Visited<decltype(v), Finding>& finding) {
  v("id", finding.id);
  v("fingerprint", finding.fingerprint);
  v("title", finding.title);
  v("sentence", finding.sentence);
  v.name("severity", finding.severity, severity_of);
  v.name("confidence", finding.confidence, confidence_of);
  if constexpr (kIsForOthers<decltype(v)>) {
    v.constant("states", name_of(stated_by(finding)));
    v.constant("certainty", certainty_words(finding));
  }
  v.name("kind", finding.kind, finding_kind_of);
  v.name("subsystem", finding.subsystem, subsystem_of);
  v("nodes", finding.nodes);
  v("instances", finding.instances);
  v("intervals", finding.intervals);
  v("impact", finding.impact);
  v("evidence", finding.evidence);
  if_any(v, "main_threads", finding.main_threads);
  if_any_known(v, "interventions", finding.interventions);
  if_any(v, "feedback", finding.feedback);
  v.maybe("runner_up", finding.runner_up, !finding.runner_up.id.empty() || !finding.runner_up.why_not.empty());
  v.word("caused_by", finding.caused_by);
  v.word("first_cause", finding.first_cause);
  v("remedy", finding.remedy);
  if constexpr (kIsForOthers<decltype(v)>) {
    const RemedyTexts steps = steps_of(finding);
    v.object("remedy_steps", [&steps](auto& of_lists) {
      of_lists.constant("user", names_of_kinds(steps.user));
      of_lists.constant("advice", names_of_kinds(steps.advice));
      of_lists.constant("admin", names_of_kinds(steps.admin));
    });
  }
  v("sources", finding.sources);
}

void fields(auto& v, Visited<decltype(v), ReportEpisode::Reason>& reason) {
  v("metric", reason.metric);
  v("instance", reason.instance);
  v("feature", reason.feature);
  v("z", reason.z);
  v("observed", reason.observed);
  v("expected", reason.expected);
  v("unit", reason.unit);
}

void fields(auto& v, Visited<decltype(v), ReportEpisode::Contribution>& part) {
  v("metric", part.metric);
  v("instance", part.instance);
  v("share", part.share);
}

void fields(auto& v, Visited<decltype(v), ReportEpisode::DetectorView>& view) {
  v.name("method", view.method, method_of);
  v("channels", view.channels);
}

void fields(auto& v, Visited<decltype(v), ReportEpisode>& episode) {
  v("node", episode.node);
  v("first_window", episode.first_window);
  v("last_window", episode.last_window);
  v.inlined(episode.span);
  v.names("methods", episode.methods, method_of);
  v("agreement", episode.agreement);
  v("score", episode.score);
  v.name("tier", episode.tier, tier_of);
  v.names("labels", episode.labels, label_of);
  v.name("subsystem", episode.subsystem, subsystem_of);
  v("reasons", episode.reasons);
  v("claim", episode.claim);
  v.known("detectors", episode.detectors);
}

void fields(auto& v, Visited<decltype(v), AnomalousTime>& time) {
  v.name("by", time.by, anomalous_by_of);
  v("name", time.name);
  v("seconds", time.seconds);
  v.rounded("percent", time.percent);
}

void fields(auto& v, Visited<decltype(v), ReportMark>& mark) {
  v.name("kind", mark.kind, mark_kind_of);
  v.word("node", mark.node);
  v.inlined(mark.span);
  v("text", mark.text);
}

void fields(auto& v, Visited<decltype(v), JobPhase>& phase) {
  v.name("kind", phase.kind, phase_kind_of);
  v.inlined(phase.span);
}

void fields(auto& v, Visited<decltype(v), NodePhases>& phases) {
  v("nodes", phases.nodes);
  v("resolution_seconds", phases.resolution_seconds);
  v.known("phases", phases.phases);
  v.time("first_step", phases.first_step_utc_ns);
  v.time("last_step", phases.last_step_utc_ns);
  v.word("note", phases.note);
}

void fields(auto& v, Visited<decltype(v), MetricAcrossNodes::Line>& line) {
  v("node", line.node);
  v("differs", line.differs);
  v("mean", line.mean);
  v("values", line.values);
}

void fields(auto& v, Visited<decltype(v), MetricAcrossNodes>& metric) {
  v("channel", metric.channel);
  v("unit", metric.unit);
  v("begin_seconds", metric.begin_seconds);
  v("step_seconds", metric.step_seconds);
  v("peers", metric.peers);
  v("median_mean", metric.median_mean, "fewer than three nodes were compared");
  v("median", metric.median);
  v("lines", metric.lines);
}

void fields(auto& v, Visited<decltype(v), PeerGroup>& group) {
  v("nodes", group.nodes);
  v("compared", group.compared);
  v.word("reason", group.reason);
  v("seconds_in_common", group.seconds);
  v("channels", group.channels);
}

void fields(auto& v, Visited<decltype(v), PeerDeviation>& deviation) {
  v("node", deviation.node);
  v("channel", deviation.channel);
  v.name("subsystem", deviation.subsystem, subsystem_of);
  v("observed", deviation.observed);
  v("expected", deviation.expected);
  v("unit", deviation.unit);
  v.rounded("percent", deviation.percent);
  v.rounded("t", deviation.t);
  v.rounded("p", deviation.p);
  v("telling", deviation.telling);
}

void fields(auto& v, Visited<decltype(v), PeerCell>& cell) {
  v("node", cell.node);
  v.name("subsystem", cell.subsystem, subsystem_of);
  v("channels", cell.channels);
  v.rounded("percent", cell.percent);
}

void fields(auto& v, Visited<decltype(v), FactDifference>& fact) {
  v("key", fact.key);
  v("nodes", fact.nodes);
  v("value", fact.value);
  v("usual", fact.usual);
}

void fields(auto& v, Visited<decltype(v), Straggler>& straggler) {
  v.word("node", straggler.node);
  v.word("reason", straggler.reason);
  v.word("signal", straggler.signal);
  if (straggler.node.empty()) return;
  v("observed", straggler.observed);
  v("expected", straggler.expected);
  v.constant("unit", "cpus");
  v("seconds", straggler.seconds);
  v("percent", straggler.percent);
}

void fields(auto& v, Visited<decltype(v), PeerComparison>& peers) {
  v("compared", peers.compared);
  v.word("reason", peers.reason);
  v("sentence", peers.sentence);
  v.constant("method",
             "whole-job means against the median of the other nodes of the group: moderated leave-one-out t with "
             "batch-means error, Benjamini-Hochberg at 5 % over nodes and channels, effects of at least 10 %");
  v("roles", peers.groups);
  v("tests", peers.tests);
  v("deviations", peers.deviations);
  v("deviations_left_out", peers.deviations_left_out);
  v("map", peers.cells);
  v("configuration", peers.facts);
  v("straggler", peers.straggler);
}

void fields(auto& v, Visited<decltype(v), HistoryChange>& change) {
  v.name("what", change.what, history_change_of);
  v("name", change.name);
  if (change.what == HistoryChange::What::configuration) {
    v.word("now", change.now);
    v.word("before", change.before);
  } else {
    v.name("subsystem", change.subsystem, subsystem_of);
    v("observed", change.observed);
    v("expected", change.expected);
    v("unit", change.unit);
    v.rounded("percent", change.percent);
    v.rounded("t", change.t);
    v("drift", change.drift);
  }
  v.time("since", change.since_utc_ns);
}

void fields(auto& v, Visited<decltype(v), EarlierRun>& run) {
  v.time("begin", run.begin_utc_ns);
  v("seconds", run.seconds);
  v("in_baseline", run.in_baseline);
}

void fields(auto& v, Visited<decltype(v), HistoryComparison>& history) {
  v.name("status", history.status, history_status_of);
  v.word("reason", history.reason);
  v("sentence", history.sentence);
  v("key", history.key);
  v("runs", history.runs);
  v("accepted", history.accepted);
  v.constant("runs_needed", kLeastRuns);
  v.time("first", history.first_utc_ns);
  v.time("last", history.last_utc_ns);
  v("channels", history.channels);
  v("enters_baseline", history.enters_baseline);
  v.word("why_not", history.why_not);
  v("changes", history.changes);
  v("changes_left_out", history.changes_left_out);
  if_any(v, "earlier", history.earlier);
}

void fields(auto& v, Visited<decltype(v), MutedFinding>& muted) {
  v("id", muted.id);
  v("title", muted.title);
  v.name("severity", muted.severity, severity_of);
  v("nodes", muted.nodes);
  v("reason", muted.reason);
}

void fields(auto& v, Visited<decltype(v), NotChecked>& one) {
  v("rule", one.rule);
  v("reason", one.reason);
  if (!kLeavesOutEmpty<std::remove_reference_t<decltype(v)>> || one.checked_elsewhere) {
    v("checked_elsewhere", one.checked_elsewhere);
  }
}

void fields(auto& v, Visited<decltype(v), TimelineChannel>& channel) {
  v("node", channel.node);
  v("name", channel.name);
  v("unit", channel.unit);
  v("begin_seconds", channel.begin_seconds);
  v("step_seconds", channel.step_seconds);
  v("expected", channel.expected, "no finding has an expected level of this channel");
  v("values", channel.values);
}

void fields(auto& v, Visited<decltype(v), Report>& report) {
  v.schema("schema", kReportSchema);
  v.word("report_id", report.report_id);
  v.word("tool_version", report.tool_version);
  v.word("directory", report.directory);
  v.time("created", report.created_utc_ns);
  v("partial", report.partial);
  v.word("supersedes", report.supersedes);
  v.object("mode", [&](auto& mode) {
    mode("privileged", report.privileged);
    mode("shared_node", report.shared_node);
  });
  v("job", report.job);
  v("coverage", report.coverage);
  v("totals", report.totals);
  v("overhead", report.overhead);
  if_any(v, "faster_reading", report.faster);
  v("locality", report.locality);
  if_any(v, "python", report.python);
  v.required("verdict", report.verdict);
  v("findings", report.findings);
  v("episodes", report.episodes);
  if_any_known(v, "anomalous", report.anomalous);
  // "Never compared" must differ from "no difference": null and a reason, or an object.
  v.maybe("comparison", report.comparison, !report.comparison.groups.empty(), report.comparison.reason);
  v.maybe("history", report.history, report.history.status != HistoryStatus::never_compared, report.history.reason);
  if_any(v, "muted", report.muted);
  v("not_checked", report.not_checked);
  v.dictionary("omitted", report.omitted);
  v.pairs("files", report.files, "what", "path");
  v.constant("units", units_of_keys());
  if_any_known(v, "marks", report.marks);
  if_any(v, "phases", report.phases);
  if_any(v, "across", report.across);
  v("timeline", report.timeline);
}

}  // namespace reveal
