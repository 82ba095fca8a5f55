// The digest that administrators get: which nodes hurt different jobs, as `reveal nodes` prints it.
#pragma once

#include <chrono>
#include <string>

#include "postproc/ledger/node_ranking.h"
#include "postproc/mail/mail_job.h"

namespace reveal {

struct NodeDigest {
  bool dry_run = false;
  std::string host;
  std::int64_t now_utc_ns = 0;
  std::chrono::milliseconds limit = kSendLimit;
};

/// One mail to all administrators.
[[nodiscard]] MailOutcome mail_digest(const Digest& content, const NodeDigest& digest, const MailSettings& settings);

/// The same about these nodes; none if no node has findings of its own, which is no failure where mail is off either.
[[nodiscard]] MailOutcome mail_nodes(const NodeRanking& ranking, const NodeDigest& digest,
                                     const MailSettings& settings);

}  // namespace reveal
