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

void fields(auto& v, Visited<decltype(v), WatchSummary::Node>& node) {
  v("node", node.node);
  v.name("state", node.state, live_state_of);
  v("seconds", node.seconds);
  v("channels", node.channels);
  v("collector_cpu_percent_of_core", node.collector_percent);
  v.time("heard", node.heard_utc_ns);
}

void fields(auto& v, Visited<decltype(v), WatchSummary>& summary) {
  v.inlined(summary.notice);
  v("watching_cpu_percent_of_core", summary.watching_percent);
  v("runs", summary.runs);
  v("runs_skipped", summary.runs_skipped);
  v("nodes", summary.nodes);
}

}  // namespace reveal
