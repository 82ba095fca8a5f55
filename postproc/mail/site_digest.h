// The findings for administrators in many jobs as one mail: a rule on a node is one row, in however many jobs it was
// found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "postproc/ledger/node_ledger.h"
#include "postproc/mail/mail_settings.h"
#include "postproc/mail/message.h"

namespace reveal {

struct NodeFault {
  std::string rule, node;
  Severity severity = Severity::notice;  // the highest
  std::size_t jobs = 0;                  // different ones; an array job is one
  std::size_t users = 0;
  std::int64_t first_utc_ns = 0, last_utc_ns = 0;       // begin of the first job, end of the last one
  std::optional<double> seconds;                        // lost run time of the jobs where it is known
  bool at_most = false;                                 // one of these times is an upper bound
  std::string owner;                                    // hash of the only user; "" for several; in no mail
  std::optional<Confidence> confidence = std::nullopt;  // the highest; none where no line has it
};

/// Lines of the remedy for administrators, filled with the values of one job, by rule and node.
using AdminLines = std::map<std::pair<std::string, std::string>, std::vector<std::string>>;

/// The lines of a report, for the first nodes of each finding. Throws Error where it is none.
[[nodiscard]] AdminLines admin_lines(const std::string& report_json, const MailSettings& settings);
/// Without lines that no row of the rule table made, and cut to a length that a mail can have.
[[nodiscard]] std::vector<std::string> lines_of_rule(const std::string& rule, std::vector<std::string> lines);

/// The lines of a report that concern administrators, with these findings only. Throws Error as ledger_lines() does.
[[nodiscard]] std::vector<LedgerLine> lines_for_admins(const std::string& report_json, const MailSettings& settings);

/// One for each rule on each node: the most severe rule first, then the rule of most jobs; the node of most jobs first.
[[nodiscard]] std::vector<NodeFault> node_faults(std::span<const LedgerLine> lines);

/// The mail about them, of which there is at least one.
[[nodiscard]] Digest digest_of(std::span<const NodeFault> faults, const AdminLines& steps, std::int64_t now_utc_ns);

}  // namespace reveal
