// NODE.summary.json, each member once.
#pragma once

#include "postproc/analysis/node_summary.h"
#include "postproc/peers/call_fields.h"
#include "postproc/peers/collective_fields.h"
#include "postproc/peers/profile_fields.h"
#include "postproc/peers/step_fields.h"
#include "postproc/report/report_json.h"
#include "postproc/words/lists.h"

namespace reveal {

void fields(auto& v, Visited<decltype(v), RetransmitsTo>& to) {
  v("peer", to.peer);
  v("slots", to.slots);
  v("segments", to.segments);
  v("duplicates", to.duplicates);
  v("overtaken", to.overtaken);
  v("overtaken_duplicates", to.overtaken_duplicates);
}

void fields(auto& v, Visited<decltype(v), Retransmits>& sent) {
  v("begin_utc_ns", sent.begin_utc_ns);
  v("slot_ns", sent.slot_ns);
  v("peers", sent.peers);
}

/// Earlier versions wrote each name.
void read_unfolded_nodes(auto& /*v*/, const auto& /*summary*/) {}
inline void read_unfolded_nodes(JsonReader& reader, NodeSummary& summary) {
  std::vector<std::string> nodes;
  reader("expected_nodes", nodes);
  if (summary.expected_nodes.empty()) summary.expected_nodes = slurm_node_list(nodes);
}

void fields(auto& v, Visited<decltype(v), NodeSummary>& summary) {
  v.schema("schema", "reveal.summary/2", "reveal.summary/1");
  v("node", summary.node);
  v("tool_version", summary.tool_version);
  v("config_hash", summary.config_hash);
  v.object("trace", [&](auto& trace) {
    trace("file", summary.trace);
    trace("bytes", summary.trace_bytes);
    trace("mtime_ns", summary.trace_mtime_ns);
    trace("complete", summary.complete);
    trace("thinned", summary.downsampled);
  });
  v("seconds", summary.seconds);
  v("boot_id", summary.boot_id);
  v("insufficient", summary.insufficient);
  v("damaged", summary.damaged);
  v("addresses", summary.addresses);
  v("node_list", summary.expected_nodes);
  read_unfolded_nodes(v, summary);
  v("sent_again", summary.retransmits);
  // Summaries of an earlier version have none: such a node is reported, and not compared.
  v("profile", summary.profile);
  v.maybe("steps", summary.steps, !summary.steps.ranks.empty());
  v.maybe("calls", summary.calls, !summary.calls.ranks.empty());
  v.maybe("collectives", summary.collectives, !summary.collectives.trends.empty());
  v.required("report", summary.part);
}

}  // namespace reveal
