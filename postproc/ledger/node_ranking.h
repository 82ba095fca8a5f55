// The nodes that slowed different jobs down: the ledger added up by node and rule, and the command to drain a node
// where several jobs agree that its hardware is at fault.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "postproc/ledger/node_ledger.h"
#include "postproc/report/report.h"

namespace reveal {

/// Node-hours that jobs lost: all nodes of a job wait as long as it is late.
struct LostHours {
  std::optional<double> hours;  // hours of the findings whose cost is known
  bool at_most = false;         // at least one of them is an upper bound
  bool operator==(const LostHours&) const = default;
};

struct NodeRule {
  std::string rule, title;
  Severity severity = Severity::notice;  // the highest
  bool hardware = false;                 // its remedy is to drain the node
  std::size_t jobs = 0;                  // different ones; an array job is one
  std::size_t users = 0;
  LostHours cost;
  std::int64_t last_utc_ns = 0;
  std::optional<Confidence> confidence = std::nullopt;  // the highest; none where no line has it
};

struct NodeRecord {
  std::string node;
  std::size_t jobs = 0;
  std::size_t jobs_with_findings = 0;
  LostHours cost;
  std::int64_t last_utc_ns = 0;   // end of the last job with a finding
  std::vector<NodeRule> rules;    // that of most jobs first
  std::string suggestion;         // a command, or ""
  std::string why_no_suggestion;  // "" unless only the number of users prevents one
};

struct UnreadDirectory {
  std::string directory, reason;
};

struct NodeRanking {
  std::size_t jobs = 0;
  std::size_t nodes_seen = 0;
  std::int64_t begin_utc_ns = 0, end_utc_ns = 0;
  std::size_t agree = 0;          // jobs that a suggestion needs
  std::size_t whole_jobs = 0;     // findings that are no node's: of all nodes of a job, or about its programs
  std::size_t lines_refused = 0;  // refused lines of the ledger
  std::vector<UnreadDirectory> unread;
  std::vector<NodeRecord> nodes;  // with findings; those that should be drained first, then by jobs
};

struct RankingOptions {
  std::size_t agree = 3;
  std::string own;  // pseudonym of the reader, who copied what belongs to him
};

/// The rule's own administrators' remedy drains the node.
[[nodiscard]] bool is_hardware_rule(const RuleSpec& rule);

/// Counts a finding for a node if the node's hardware is at fault, or if its rule is about nodes (node_causes.h) and it
/// names some nodes of the job and not all, or the only one.
[[nodiscard]] NodeRanking rank_nodes(std::span<const LedgerLine> lines, const RankingOptions& options);

/// Prints at most `limit` nodes.
[[nodiscard]] std::string ranking_as_text(const NodeRanking& ranking, std::size_t limit, const TextStyle& style);
[[nodiscard]] std::string ranking_as_json(const NodeRanking& ranking);

}  // namespace reveal
