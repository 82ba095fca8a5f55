// Each member of the output of `reveal watch --json`, once: its key.
#pragma once

#include "postproc/json/json_fields.h"
#include "postproc/live/watch_view.h"

namespace reveal {

void fields(auto& v, Visited<decltype(v), AlertNotice::Reason>& reason) {
  v("channel", reason.channel);
  v("unit", reason.unit);
  v("observed", reason.observed);
  v("expected", reason.expected);
  v("share", reason.share);
  if (!reason.program.empty() || v.kReads) v("program", reason.program);
}

void fields(auto& v, Visited<decltype(v), AlertNotice>& notice) {
  v.schema("schema", "reveal.alert/1");
  v.name("news", notice.news, alert_news_of);
  v.time("published", notice.published_utc_ns);
  v("node", notice.node);
  v("number", notice.number);
  v.name("state", notice.state, alert_state_of);
  v.name("tier", notice.tier, tier_of);
  v.time("begin", notice.begin_utc_ns);
  v.time("end", notice.end_utc_ns);
  v.name("subsystem", notice.subsystem, subsystem_of);
  v("score", notice.score);
  v.names("methods", notice.methods, method_of);
  v.names("labels", notice.labels, label_of);
  v("claim", notice.claim);
  v("reasons", notice.reasons);
  v.time("window_end", notice.window_end_utc_ns);
  v.time("last_run", notice.last_run_utc_ns);
}

void fields(auto& v, Visited<decltype(v), WatchNotice>& notice) {
  v.schema("schema", "reveal.watch/1");
  v("news", notice.news);
  v.time("published", notice.published_utc_ns);
  v("text", notice.text);
}

void fields(auto& v, Visited<decltype(v), EarlierInterval>& interval) {
  v("node", interval.node);
  v.time("begin", interval.begin_utc_ns);
  v.time("end", interval.end_utc_ns);
  v("channels", interval.channels);
  v("of_channels", interval.of_channels);
  v("farthest", interval.farthest);
  v("direction", interval.direction);
  if (!interval.program.empty() || v.kReads) v("program", interval.program);
}

void fields(auto& v, Visited<decltype(v), EarlierNotice>& notice) {
  v.inlined(notice.notice);
  v.inlined(notice.interval);
}

void fields(auto& v, Visited<decltype(v), Pace>& pace) {
  v("per_second", pace.per_second);
  v("estimated", pace.estimated);
  v("done", pace.done);
  v("planned", pace.planned);
}

void fields(auto& v, Visited<decltype(v), NodeView::Meter>& meter) {
  v("metric", meter.metric);
  v("values", meter.values);
}

void fields(auto& v, Visited<decltype(v), NodeView>& view) {
  v("node", view.node);
  v.name("state", view.state, live_state_of);
  v("problem", view.problem);
  v("seconds", view.seconds);
  v("channels", view.channels);
  v("collector_cpu_percent_of_core", view.collector_percent);
  v.time("heard", view.heard_utc_ns);
  v("silent_seconds", view.silent_seconds);
  v("pace", view.pace);
  v("job", view.job);
  v("job_name", view.job_name);
  v("command", view.command);
  v("meters", view.meters);
}

void fields(auto& v, Visited<decltype(v), NodeReport>& report) {
  v.schema("schema", "reveal.node/1");
  v.inlined(report.view);
  v("hang", report.hang);
  v("has_calls", report.has_calls);
  v("runs", report.runs);
  v("runs_skipped", report.runs_skipped);
  v("watching_cpu_percent_of_core", report.watching_percent);
}

void fields(auto& v, Visited<decltype(v), WatchSummary::Node>& node) {
  v("node", node.node);
  v.name("state", node.state, live_state_of);
  v("seconds", node.seconds);
  v("channels", node.channels);
  v("collector_cpu_percent_of_core", node.collector_percent);
  v.time("heard", node.heard_utc_ns);
  if (node.iterations_per_second || v.kReads) v("iterations_per_second", node.iterations_per_second);
  if (node.iteration || v.kReads) v("iteration", node.iteration);
  if (node.iterations_planned != 0 || v.kReads) v("iterations_planned", node.iterations_planned);
}

void fields(auto& v, Visited<decltype(v), WatchSummary>& summary) {
  v.inlined(summary.notice);
  v("watching_cpu_percent_of_core", summary.watching_percent);
  v("runs", summary.runs);
  v("runs_skipped", summary.runs_skipped);
  v("nodes", summary.nodes);
}

}  // namespace reveal
