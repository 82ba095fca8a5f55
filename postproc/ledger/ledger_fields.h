// A line of the ledger and what `reveal nodes --json` prints, each member once.
#pragma once

#include "postproc/diagnose/rule.h"
#include "postproc/json/json_fields.h"
#include "postproc/ledger/node_ledger.h"
#include "postproc/ledger/node_ranking.h"

namespace reveal {

inline constexpr std::string_view kCostUnknown = "no finding has a known cost";

/// Null where it is not known.
template <class V, class T>
void confidence_field(V& v, T& confidence) {
  std::string name(confidence ? name_of(*confidence) : std::string_view());
  v.word("confidence", name);
  if constexpr (V::kReads) confidence = confidence_of(name);
}

/// Its words, for readers of the JSON.
template <class V>
void certainty_field(V& v, const std::string& rule, std::optional<Confidence> confidence) {
  v.constant("certainty", confidence ? Json(certainty_words(rule, *confidence)) : Json(nullptr));
}

/// "; measured fact", behind other words; "" where it is not known.
[[nodiscard]] inline std::string certainty_behind(const std::string& rule, std::optional<Confidence> confidence) {
  return confidence ? "; " + certainty_words(rule, *confidence) : "";
}

void fields(auto& v, Visited<decltype(v), LedgerFinding>& finding) {
  v("rule", finding.rule);
  v.name("severity", finding.severity, severity_of);
  v("seconds", finding.seconds, name_of(finding.how));
  v.name("how", finding.how, loss_known_of);
  v("nodes", finding.nodes);
  confidence_field(v, finding.confidence);
}

void fields(auto& v, Visited<decltype(v), LedgerLine>& line) {
  v.schema("schema", kLedgerSchema);
  v("node", line.node);
  v("job", line.job);
  v.word("array", line.array);
  v.word("owner", line.owner);
  v.time("begin", line.begin_utc_ns);
  v.time("end", line.end_utc_ns);
  v("job_nodes", line.job_nodes);
  v.known("findings", line.findings);
}

void fields(auto& v, Visited<decltype(v), NodeRule>& rule) {
  v("rule", rule.rule);
  v("title", rule.title);
  v.name("severity", rule.severity, severity_of);
  confidence_field(v, rule.confidence);
  certainty_field(v, rule.rule, rule.confidence);
  v("hardware", rule.hardware);
  v("jobs", rule.jobs);
  v("users", rule.users);
  v("node_hours", rule.cost.hours, kCostUnknown);
  v("at_most", rule.cost.at_most);
  v.time("last", rule.last_utc_ns);
}

void fields(auto& v, Visited<decltype(v), NodeRecord>& node) {
  v("node", node.node);
  v("jobs", node.jobs);
  v("jobs_with_findings", node.jobs_with_findings);
  v("node_hours", node.cost.hours, kCostUnknown);
  v("at_most", node.cost.at_most);
  v.time("last", node.last_utc_ns);
  v("rules", node.rules);
  v.word("suggestion", node.suggestion);
  v.word("why_no_suggestion", node.why_no_suggestion);
}

void fields(auto& v, Visited<decltype(v), UnreadDirectory>& directory) {
  v("directory", directory.directory);
  v("reason", directory.reason);
}

void fields(auto& v, Visited<decltype(v), NodeRanking>& ranking) {
  v.schema("schema", "reveal.nodes/1");
  v("jobs", ranking.jobs);
  v("nodes_seen", ranking.nodes_seen);
  v.time("begin", ranking.begin_utc_ns);
  v.time("end", ranking.end_utc_ns);
  v("jobs_to_agree", ranking.agree);
  v("findings_of_whole_jobs", ranking.whole_jobs);
  v("lines_refused", ranking.lines_refused);
  v("unread", ranking.unread);
  v("nodes", ranking.nodes);
}

}  // namespace reveal
