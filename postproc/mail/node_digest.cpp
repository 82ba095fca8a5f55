#include "postproc/mail/node_digest.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/analysis_settings.h"
#include "postproc/mail/address.h"
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

}  // namespace

MailOutcome mail_nodes(const NodeRanking& ranking, const NodeDigest& digest, const MailSettings& settings) {
  MailOutcome outcome;
  if (!settings.enabled) {
    outcome.why_not.emplace_back("mail is switched off: [mail] enabled = false");
  } else if (is_switched_off(settings)) {
    outcome.why_not.push_back("mail is switched off by the file " + settings.disable);
  } else if (settings.admins.empty()) {
    outcome.why_not.emplace_back("[mail] sets no admins");
  } else if (ranking.nodes.empty()) {
    outcome.why_not.emplace_back("no node has findings of its own");
  }
  if (!outcome.why_not.empty()) return outcome;

  MailContext context{.audience = Audience::admins, .to = {}, .host = digest.host, .now_utc_ns = digest.now_utc_ns};
  for (const std::string& admin : settings.admins) {
    std::string address = qualified(admin, settings.domain);
    const bool known = std::any_of(context.to.begin(), context.to.end(),
                                   [&](const std::string& other) { return same_address(other, address); });
    if (!known) context.to.push_back(std::move(address));
  }
  const std::string json = ranking_as_json(ranking);
  MailOutcome::Item item{.audience = Audience::admins, .to = context.to, .message = {}, .why = {}};
  item.message = compose_digest({.id = "nodes-" + text_hash(json + std::to_string(digest.now_utc_ns)),
                                 .subject = subject_of_digest(ranking),
                                 .text = text_of_digest(ranking),
                                 .json = json},
                                settings, context);
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

}  // namespace reveal
