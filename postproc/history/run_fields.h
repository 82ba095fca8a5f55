// run.json, each member once.
#pragma once

#include "postproc/history/run_record.h"
#include "postproc/json/json_fields.h"

namespace reveal {

void fields(auto& v, Visited<decltype(v), RunChannel>& channel) {
  v("channel", channel.name);
  v("unit", channel.unit);
  v.name("subsystem", channel.subsystem, subsystem_of);
  v.name("kind", channel.kind, kind_of);
  v("value", channel.value);
}

void fields(auto& v, Visited<decltype(v), RunRecord>& record) {
  v.schema("schema", "reveal.run/1");
  v("run_id", record.run_id);
  v("key", record.key);
  v("name", record.name);
  v("command", record.command);
  v.word("job", record.job);
  v.word("array", record.array);
  v.word("het", record.het);
  v.word("state", record.state);
  v("exit_code", record.exit_code);
  v("nodes", record.nodes);
  v("ranks", record.ranks);
  v("begin_utc_ns", record.begin_utc_ns);
  v("seconds", record.seconds);
  v("verdict", record.verdict);
  v("findings", record.findings);
  v("accepted", record.accepted);
  v("why_not", record.why_not);
  v.table("channel_columns", "channels", record.channels);
  v("zeros", record.zeros);
  v.dictionary("facts", record.facts);
  v("mixed_facts", record.mixed_facts);
}

}  // namespace reveal
