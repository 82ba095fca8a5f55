// Calls that wait for other ranks, inside NODE.summary.json.
#pragma once

#include "postproc/json/json_fields.h"
#include "postproc/peers/call_history.h"

namespace reveal {

void fields(auto& v, Visited<decltype(v), FunctionCalls>& function) {
  v("function", function.function);
  v("calls", function.calls);
}

void fields(auto& v, Visited<decltype(v), SizedCall>& call) {
  v("function", call.function);
  v("bytes", call.bytes);
}

void fields(auto& v, Visited<decltype(v), LastCollectives>& last) {
  v("order", last.order);
  v("ranks", last.ranks);
  v("rank", last.rank);
  v("id", last.id);
  v("calls", last.calls);
  v("begin_utc_ns", last.begin_ns);
  v("newest", last.newest);
}

void fields(auto& v, Visited<decltype(v), QuietTime>& quiet) {
  v("begin_utc_ns", quiet.begin_utc_ns);
  v("end_utc_ns", quiet.end_utc_ns);
  v("to_the_end", quiet.to_the_end);
  v("process_ended_utc_ns", quiet.process_ended_utc_ns);
  v("timed", quiet.timed);
  v("inside", quiet.inside);
  v("inside_seconds", quiet.inside_seconds);
  v("last", quiet.last);
  v("cpus", quiet.cpus, "the cpu time of the process was not measured");
  v("job_cpus", quiet.job_cpus, "the cpu time of the job was not measured");
  v("stopped", quiet.stopped, "states of processes were not measured");
  v("io_bytes", quiet.io_bytes, "what the process reads and writes was not measured");
  v("other_calls", quiet.other_calls);
  v("place", quiet.place);
  v("calls", quiet.calls);
  v("before_utc_s", quiet.before_utc_s);
  v("before", quiet.before);
  v("communicators", quiet.communicators);
}

void fields(auto& v, Visited<decltype(v), RankCalls>& rank) {
  v("rank", rank.rank);
  v("calls", rank.calls);
  v("passes", rank.passes);
  v("quiet", rank.quiet);
}

void fields(auto& v, Visited<decltype(v), CallHistory>& history) {
  v("ranks", history.ranks);
}

}  // namespace reveal
