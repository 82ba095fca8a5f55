// The training steps inside NODE.summary.json.
#pragma once

#include "postproc/json/json_fields.h"
#include "postproc/peers/step_history.h"

namespace reveal {

void fields(auto& v, Visited<decltype(v), StepTrend>& trend) {
  v("rank", trend.rank);
  v("steps", trend.steps);
  v("point_steps", trend.point_steps);
  v("first_point", trend.first_point);
  v("begin_utc_ns", trend.begin_utc_ns);
  v("begins", trend.begins);
}

void fields(auto& v, Visited<decltype(v), SlowSteps>& slow) {
  v("rank", slow.rank);
  v("first", slow.first);
  v("last", slow.last);
  v("begin_utc_ns", slow.begin_utc_ns);
  v("end_utc_ns", slow.end_utc_ns);
  v("score", slow.score);
  v("seconds", slow.seconds);
  v("usual_seconds", slow.usual_seconds);
  v("waiting", slow.waiting, "the process called no function that is known to wait");
  v("usual_waiting", slow.usual_waiting, "the process called no function that is known to wait");
  constexpr const char* kWhyNoCpu = "the cpu time of the process was not measured, or means nothing beside a GPU";
  v("cpu", slow.cpu, kWhyNoCpu);
  v("usual_cpu", slow.usual_cpu, kWhyNoCpu);
  constexpr const char* kWhyNoCommunication = "the process made no collective of gloo whose time is known";
  v("communication", slow.communication, kWhyNoCommunication);
  v("usual_communication", slow.usual_communication, kWhyNoCommunication);
  constexpr const char* kWhyNoCollections = "the garbage collections of the process were not measured";
  v("gc", slow.gc, kWhyNoCollections);
  v("usual_gc", slow.usual_gc, kWhyNoCollections);
  constexpr const char* kWhyNoInput = "the main thread of the process has too few samples";
  v("input", slow.input, kWhyNoInput);
  v("usual_input", slow.usual_input, kWhyNoInput);
  v("input_error", slow.input_error, kWhyNoInput);
}

void fields(auto& v, Visited<decltype(v), StepHistory>& history) {
  v("ranks", history.ranks);
  v("slow", history.slow);
}

}  // namespace reveal
