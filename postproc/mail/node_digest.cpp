#include "postproc/mail/node_digest.h"

#include <spdlog/fmt/fmt.h>

#include <utility>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/analysis_settings.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

constexpr std::size_t kMostNodesInDigest = 20;
constexpr std::size_t kMostNodesInSubject = 4;

std::string subject_of_digest(const NodeRanking& ranking) {
  std::vector<std::string> drained, all;
  for (const NodeRecord& node : ranking.nodes) {
    all.push_back(node.node);
    if (!node.suggestion.empty()) drained.push_back(node.node);
  }
  const std::string with = counted(static_cast<double>(all.size()), "node") + " with findings";
  if (drained.empty()) return fmt::format("[reveal] {}: {}", with, node_list(all, kMostNodesInSubject));
  return fmt::format("[reveal] check {}: the same fault in different jobs; {}", node_list(drained, kMostNodesInSubject),
                     with);
}

std::string text_of_digest(const NodeRanking& ranking) {
  return ranking_as_text(ranking, kMostNodesInDigest, {}) +
         "\nNumbers and names of nodes come from files that users can write: check a node before you act.\n"
         "\n-- \nAttached: nodes.json with all nodes.\n";
}

/// "" if mail to administrators can be sent.
std::string why_no_digest(const MailSettings& settings) {
  if (std::string why = why_no_mail(settings); !why.empty()) return why;
  return settings.admins.empty() ? "[mail] sets no admins" : "";
}

}  // namespace

MailOutcome mail_digest(const Digest& content, const NodeDigest& digest, const MailSettings& settings) {
  MailOutcome outcome;
  if (std::string why = why_no_digest(settings); !why.empty()) {
    outcome.why_not.push_back(std::move(why));
    outcome.failed = !digest.dry_run;  // a caller that keeps the lines for a later digest must not drop them
    return outcome;
  }
  const MailContext context{.audience = Audience::admins,
                            .to = addresses_of_admins(settings),
                            .host = digest.host,
                            .now_utc_ns = digest.now_utc_ns};
  MailOutcome::Item item{.audience = Audience::admins, .to = context.to, .message = {}, .why = {}};
  item.message = compose_digest(content, settings, context);
  item.state = MailState::would_send;
  if (!digest.dry_run) {
    try {
      send_mail(settings.sendmail, item.message.mime, digest.limit);
      item.state = MailState::sent;
    } catch (const Error& error) {
      item.state = MailState::failed;
      item.why = error.what();
      outcome.failed = true;
    }
  }
  outcome.items.push_back(std::move(item));
  return outcome;
}

MailOutcome mail_nodes(const NodeRanking& ranking, const NodeDigest& digest, const MailSettings& settings) {
  if (ranking.nodes.empty()) {
    MailOutcome outcome;
    outcome.why_not.emplace_back("no node has findings of its own");
    return outcome;
  }
  const std::string json = ranking_as_json(ranking);
  return mail_digest({.id = "nodes-" + text_hash(json + std::to_string(digest.now_utc_ns)),
                      .subject = subject_of_digest(ranking),
                      .text = text_of_digest(ranking),
                      .json = json},
                     digest, settings);
}

}  // namespace reveal
