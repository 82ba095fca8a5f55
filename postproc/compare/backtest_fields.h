// reveal.backtest/1, each member once.
#pragma once

#include "postproc/compare/backtest.h"
#include "postproc/json/json_fields.h"

namespace reveal {

void fields(auto& v, Visited<decltype(v), RuleResult>& result) {
  v.name("state", result.state, rule_state_of);
  v.name("severity", result.severity, severity_of);
  v("nodes", result.nodes);
  v("findings", result.findings);
  v("seconds", result.seconds, "not known");
  v.word("reason", result.reason);
}

void fields(auto& v, Visited<decltype(v), BacktestedRule>& rule) {
  v("rule", rule.rule);
  v.constant("outcome", name_of(outcome_of(rule)));
  v("before", rule.before);
  v("after", rule.after);
}

void fields(auto& v, Visited<decltype(v), BacktestedJob>& job) {
  v("directory", job.directory);
  v.word("failure", job.failure);
  v("rules", job.rules);
  v("others_appeared", job.appeared);
  v("others_went", job.went);
}

void fields(auto& v, Visited<decltype(v), BacktestChange>& change) {
  v("rule", change.rule);
  v("key", change.key);
  v("before", change.before);
  v("after", change.after);
}

void fields(auto& v, Visited<decltype(v), BacktestTotals>& totals) {
  v("rule", totals.rule);
  v("jobs", totals.jobs);
  v("before", totals.before);
  v("after", totals.after);
  v("appeared", totals.appeared);
  v("went", totals.went);
  v("changed", totals.changed);
  v("same", totals.same);
  v("without", totals.without);
  v("not_checked", totals.not_checked);
}

void fields(auto& v, Visited<decltype(v), Backtest>& backtest) {
  v.schema("schema", "reveal.backtest/1");
  v("changes", backtest.changes);
  v("totals", backtest.totals);
  v("jobs", backtest.jobs);
}

}  // namespace reveal
