// reveal.compare/1, each member once.
#pragma once

#include "postproc/compare/job_comparison.h"
#include "postproc/json/json_fields.h"
#include "postproc/report/fields.h"

namespace reveal {

void fields(auto& v, Visited<decltype(v), MeanDifference>& difference) {
  v.rounded("difference", difference.difference);
  v.rounded("low", difference.low);
  v.rounded("high", difference.high);
  v.constant("confidence", kConfidence);
  v.rounded("p", difference.p);
  v.rounded("df", difference.df);
}

void fields(auto& v, Visited<decltype(v), ComparedNumber>& number) {
  v("name", number.name);
  v("unit", number.unit);
  v("before", number.before);
  v("after", number.after);
  v.maybe("interval", number.difference.value_or(MeanDifference{}), number.difference.has_value(), number.reason);
  v.word("method", number.method);
}

void fields(auto& v, Visited<decltype(v), CauseOnSide>& side) {
  v("runs", side.runs);
  v("judged", side.judged);
  v("found", side.found);
  v.word("why_not_judged", side.why_not);
}

void fields(auto& v, Visited<decltype(v), ComparedCause>& cause) {
  v("id", cause.id);
  v("title", cause.title);
  v.constant("severity", name_of(cause.severity));
  v.constant("change", name_of(cause.change));
  v("same_place", cause.same_place);
  v("before", cause.before);
  v("after", cause.after);
  v.maybe("share", cause.share, cause.share.known(), cause.share.reason);
}

void fields(auto& v, Visited<decltype(v), JobComparison>& comparison) {
  v.schema("schema", "reveal.compare/1");
  v("before", comparison.before);
  v("after", comparison.after);
  v.constant("change", name_of(comparison.change));
  v("sentence", comparison.sentence);
  v("run_time", comparison.run_time);
  v("step_time", comparison.step_time);
  v("hardware", comparison.hardware);
  v("anomalous", comparison.anomalous);
  v("causes", comparison.causes);
  v("notes", comparison.notes);
}

}  // namespace reveal
