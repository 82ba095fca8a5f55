// Each member of a published alert once: what `reveal watch --json` calls it.
#pragma once

#include "postproc/json/json_fields.h"
#include "postproc/live/watched_node.h"

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
  v.time("told", notice.published_utc_ns);
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
  v.time("last_look", notice.last_run_utc_ns);
}

}  // namespace reveal
