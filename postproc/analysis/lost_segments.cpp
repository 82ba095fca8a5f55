#include "postproc/analysis/lost_segments.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "postproc/analysis/node_addresses.h"
#include "postproc/diagnose/causal_links.h"
#include "postproc/diagnose/effective_rule.h"
#include "postproc/diagnose/loss_recoveries.h"
#include "postproc/diagnose/lossy_paths.h"
#include "postproc/diagnose/sent_again.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

constexpr std::string_view kLossRule = "net.tcp_retrans_fault";
constexpr std::string_view kLimitRule = "net.congestion";
constexpr std::string_view kSlowNodeRule = "node.straggler";
constexpr double kAllAlong = 0.8;        // share of the interval
constexpr double kToOneNode = 0.8;       // share of a sender's losses
constexpr double kAllLosses = 0.995;     // likewise
constexpr std::size_t kMostSenders = 3;  // named
constexpr double kLeastRecorded = 0.8;   // share of the interval that a sender recorded: other time was not counted

struct SenderCount {
  std::string node;
  RetransmitCount again;
};

/// The retransmissions of the job's nodes to the node of one finding.
struct Account {
  std::vector<SenderCount> senders;
  std::int64_t longest_slot_ns = 0;

  [[nodiscard]] RetransmitCount sum() const {
    RetransmitCount all;
    for (const SenderCount& sender : senders) all += sender.again;
    return all;
  }
};

/// Indices of the job's nodes: a finding does not have to look at all of them.
struct JobNodes {
  explicit JobNodes(std::span<const NodeSummary> summaries) : by_address(nodes_by_address(summaries)) {
    for (const NodeSummary& summary : summaries) {
      by_name.emplace(summary.node, &summary);
      for (const RetransmitsTo& to : summary.retransmits.peers) senders_to[to.peer].push_back(&summary);
    }
  }
  NodesByAddress by_address;
  std::map<std::string_view, const NodeSummary*> by_name;
  std::map<std::string_view, std::vector<const NodeSummary*>> senders_to;  // by address; in the order of the summaries
};

bool recorded(const ReportJob& node, const TimeSpan& span) {
  const auto both = std::min(node.end_utc_ns, span.end_utc_ns) - std::max(node.begin_utc_ns, span.begin_utc_ns);
  return static_cast<double>(both) >= kLeastRecorded * static_cast<double>(span.end_utc_ns - span.begin_utc_ns);
}

/// Nodes from which the finding missed segments; empty where one of them is not known, or none is named.
std::set<std::string> senders_named_by(const Finding& loss, const NodesByAddress& nodes) {
  std::set<std::string> senders;
  for (const Evidence& evidence : loss.evidence) {
    if (evidence.metric != kMissedFromPeer) continue;
    const auto known = nodes.find(evidence.instance);
    if (known == nodes.end() || known->second.empty()) return {};
    senders.insert(known->second);
  }
  return senders;
}

std::optional<Account> account_of(const Finding& loss, const JobNodes& nodes) {
  std::set<std::string> to_ask = senders_named_by(loss, nodes.by_address);
  if (to_ask.empty()) return std::nullopt;
  const auto known = nodes.by_name.find(loss.nodes.front());
  if (known == nodes.by_name.end()) return std::nullopt;
  const NodeSummary& receiver = *known->second;
  std::vector<const NodeSummary*> senders;
  for (const std::string& address : receiver.addresses) {
    if (const auto to = nodes.senders_to.find(address); to != nodes.senders_to.end()) {
      senders.insert(senders.end(), to->second.begin(), to->second.end());
    }
  }
  std::sort(senders.begin(), senders.end());
  senders.erase(std::unique(senders.begin(), senders.end()), senders.end());
  Account account;
  for (const NodeSummary* sender : senders) {
    if (sender->node == receiver.node || !recorded(sender->part.job, loss.intervals.front())) continue;
    const auto again = retransmits_in(sender->retransmits, receiver.addresses, loss.intervals.front());
    if (!again) continue;
    to_ask.erase(sender->node);
    account.senders.push_back({sender->node, *again});
    account.longest_slot_ns = std::max(account.longest_slot_ns, sender->retransmits.slot_ns);
  }
  if (!to_ask.empty()) return std::nullopt;
  std::stable_sort(account.senders.begin(), account.senders.end(),
                   [](const SenderCount& a, const SenderCount& b) { return a.again.segments > b.again.segments; });
  return account;
}

/// Segments that the node received in the interval, on all connections; 0 where the finding does not have them.
double received_in(const Finding& loss) {
  const auto received = std::find_if(loss.evidence.begin(), loss.evidence.end(),
                                     [](const Evidence& evidence) { return evidence.metric == "tcp.InSegs"; });
  if (received == loss.evidence.end()) return 0;
  const TimeSpan& span = loss.intervals.front();
  return received->observed.value_or(0) * static_cast<double>(span.end_utc_ns - span.begin_utc_ns) * 1e-9;
}

void tell(const Account& account, Finding& loss) {
  const TimeSpan& span = loss.intervals.front();
  // The numbers of longer slots are not those of the interval.
  if (account.longest_slot_ns > span.end_utc_ns - span.begin_utc_ns) return;
  std::vector<std::string> names;
  for (const SenderCount& sender : account.senders) {
    if (sender.again.segments <= 0) continue;
    names.push_back(sender.node);
    if (names.size() > kMostSenders) continue;
    const auto add = [&](const char* metric, double count) {
      loss.evidence.push_back({.metric = metric,
                               .instance = "",
                               .node = sender.node,
                               .feature = "total",
                               .observed = four_digits(count),
                               .expected = std::nullopt,
                               .unit = "count",
                               .span = span,
                               .detectors = {Method::kernel_counter},
                               .score = std::nullopt});
    };
    add("tcp.peer.retransmits", sender.again.segments);
    add("tcp.peer.duplicates", sender.again.duplicates);
  }
  const RetransmitCount all = account.sum();
  const double lost = std::round(all.lost());
  if (lost < 1) return;
  const double missing = std::round(all.missing());
  loss.sentence += fmt::format(
      " {} had to send at least {} segments again{}.", listed(names, kMostSenders), number(lost),
      missing > lost ? fmt::format(", of the {} of which no report says that they had arrived", number(missing)) : "");
}

/// The recoveries of a sender are the first evidence of its findings; receivers have none. A remark is about other
/// connections than the job's, whose peers are not known.
bool is_of_sender(const Finding& loss) {
  return loss.id == kLossRule && loss.severity > Severity::info && loss.nodes.size() == 1 && !loss.intervals.empty() &&
         !loss.evidence.empty() && loss.evidence.front().metric == kRecoveries;
}

struct Receiver {
  std::string node;
  RetransmitCount again;  // sent to it in the interval of the finding
  double share = 0;       // part of the sender's losses
};

/// The node to which nearly all segments went that the sender of a finding lost; nothing where there is none.
std::optional<Receiver> receiver_of(const Finding& loss, const JobNodes& nodes) {
  const auto sender = nodes.by_name.find(loss.nodes.front());
  if (sender == nodes.by_name.end()) return std::nullopt;
  const Retransmits& sent = sender->second->retransmits;
  std::map<std::string_view, RetransmitCount> to;
  double all = 0;
  for (const RetransmitsTo& peer : sent.peers) {
    const auto again = retransmits_in(sent, std::span(&peer.peer, 1), loss.intervals.front());
    if (!again) continue;
    all += std::max(0.0, again->lost());
    const auto known = nodes.by_address.find(peer.peer);
    if (known == nodes.by_address.end() || known->second.empty() || known->second == loss.nodes.front()) continue;
    to[known->second] += *again;
  }
  const auto most = std::max_element(to.begin(), to.end(),
                                     [](const auto& a, const auto& b) { return a.second.lost() < b.second.lost(); });
  if (most == to.end()) return std::nullopt;
  const double lost = most->second.lost();
  if (lost < kLeastLost || lost < kToOneNode * all) return std::nullopt;
  return Receiver{std::string(most->first), most->second, lost / all};
}

void move_to(const Receiver& receiver, std::int64_t slot_ns, Finding& loss) {
  const std::string sender = std::exchange(loss.nodes, {receiver.node}).front();
  loss.sentence += fmt::format(" {} of the job's losses were on the path from {} to {}.",
                               receiver.share >= kAllLosses ? "All" : fmt::format("{:.0f} %", 100 * receiver.share),
                               sender, receiver.node);
  tell(Account{.senders = {{sender, receiver.again}}, .longest_slot_ns = slot_ns}, loss);
}

/// A path loses segments to the node at its end, where other causes of losses are found, too. A finding of a sender
/// becomes one of that node, unless that node missed them all along by its own count, or at a higher cost.
void place_at_receivers(const JobNodes& nodes, std::vector<Finding>& findings) {
  const auto first_of_senders = std::stable_partition(findings.begin(), findings.end(),
                                                      [](const Finding& finding) { return !is_of_sender(finding); });
  std::vector<Finding> of_senders(std::make_move_iterator(first_of_senders), std::make_move_iterator(findings.end()));
  findings.erase(first_of_senders, findings.end());
  std::stable_sort(of_senders.begin(), of_senders.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  std::vector<Finding> placed;
  std::vector<Finding> elsewhere;
  for (Finding& loss : of_senders) {
    const auto receiver = receiver_of(loss, nodes);
    if (!receiver) {
      elsewhere.push_back(std::move(loss));
      continue;
    }
    const TimeSpan span = loss.intervals.front();
    const auto is_at_receiver = [&](const Finding& other) {
      return other.id == kLossRule && other.nodes == std::vector{receiver->node} && !other.intervals.empty();
    };
    const auto is_same = [&](const Finding& other) { return is_at_receiver(other) && covers(other, span, kAllAlong); };
    const auto is_part = [&](const Finding& other) {
      return is_at_receiver(other) && covers(loss, other.intervals.front(), kAllAlong);
    };
    const auto tells_it = [&](const Finding& other) {
      return other.severity == loss.severity ? is_same(other)
                                             : other.severity > loss.severity && (is_same(other) || is_part(other));
    };
    if (std::any_of(findings.begin(), findings.end(), tells_it)) continue;
    if (const auto same = std::find_if(placed.begin(), placed.end(), is_same); same != placed.end()) {
      same->sentence += fmt::format(" Packets from {} to it were lost, too.", loss.nodes.front());
      same->evidence.push_back(std::move(loss.evidence.front()));
      continue;
    }
    std::erase_if(findings, is_part);
    move_to(*receiver, nodes.by_name.at(loss.nodes.front())->retransmits.slot_ns, loss);
    placed.push_back(std::move(loss));
  }
  for (std::vector<Finding>* more : {&placed, &elsewhere}) {
    findings.insert(findings.end(), std::make_move_iterator(more->begin()), std::make_move_iterator(more->end()));
  }
}

/// A finding that made a sender slow by itself while the segments were lost: it then sends at an even and lower rate,
/// as through a port that carries no more. Null if there is none, or the senders are not known.
const Finding* slowed_sender(const Finding& loss, const JobNodes& nodes, std::span<const Finding> findings) {
  const std::set<std::string> senders = senders_named_by(loss, nodes.by_address);
  const auto slows = [&](const Finding& other) {
    return other.subsystem != Subsystem::network && other.severity >= Severity::warning && other.nodes.size() == 1 &&
           senders.contains(other.nodes.front()) && is_cause_of(other.id, kSlowNodeRule) &&
           covers(other, loss.intervals.front(), kAllAlong);
  };
  const auto found = std::find_if(findings.begin(), findings.end(), slows);
  return found == findings.end() ? nullptr : &*found;
}

bool is_lost_beside(const Finding& limit, std::span<const Finding> findings) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& other) {
    return other.id == kLossRule && other.nodes == limit.nodes && covers(other, limit.intervals.front(), kAllAlong);
  });
}

/// The lower rate has two possible causes; the losses themselves have not.
void name_slowed_sender(const Finding& sender, Finding& finding) {
  const std::string who = fmt::format("{} was slow itself ({})", sender.nodes.front(), sender.id);
  finding.impact = {.seconds = std::nullopt,
                    .percent = std::nullopt,
                    .how = fmt::format("not known: {}, and sent less for that reason, too", who)};
  if (finding.id == kLimitRule) {
    finding.confidence = Confidence::possible;
    finding.runner_up = {sender.id, fmt::format("not ruled out: {}", who)};
  } else {
    finding.runner_up = {std::string(kLimitRule), fmt::format("the lower rate needs no slow port: {}", who)};
  }
}

/// Takes back limits of a port where a slow sender and losses explain what was seen.
void compare_with_slow_senders(const JobNodes& nodes, std::vector<Finding>& findings) {
  std::vector<std::pair<Finding*, const Finding*>> slowed;
  for (Finding& finding : findings) {
    if ((finding.id != kLossRule && finding.id != kLimitRule) || finding.intervals.empty()) continue;
    if (const Finding* sender = slowed_sender(finding, nodes, findings)) slowed.emplace_back(&finding, sender);
  }
  std::set<const Finding*> taken_back;
  for (const auto& [finding, sender] : slowed) {
    if (finding->id == kLimitRule && is_lost_beside(*finding, findings)) taken_back.insert(finding);
    name_slowed_sender(*sender, *finding);
  }
  if (taken_back.empty()) return;
  std::vector<Finding> kept;
  for (Finding& finding : findings) {
    if (!taken_back.contains(&finding)) kept.push_back(std::move(finding));
  }
  findings = std::move(kept);
}

}  // namespace

void compare_with_senders(std::span<const NodeSummary> summaries, const AnalysisSettings& settings,
                          std::vector<Finding>& findings) {
  const EffectiveRule rule(kLossRule, settings);
  const LossThresholds least{.min_missing_share = rule.threshold("min_missing_share"),
                             .min_missing = rule.threshold("min_missing")};
  const JobNodes nodes(summaries);
  std::vector<Finding> kept;
  kept.reserve(findings.size());
  for (Finding& finding : findings) {
    if (finding.id == kLossRule && !finding.nodes.empty() && !finding.intervals.empty()) {
      if (const auto account = account_of(finding, nodes)) {
        if (!were_lost(account->sum(), received_in(finding), least)) continue;
        tell(*account, finding);
      }
    }
    kept.push_back(std::move(finding));
  }
  findings = std::move(kept);
  place_at_receivers(nodes, findings);
  compare_with_slow_senders(nodes, findings);
}

}  // namespace reveal
