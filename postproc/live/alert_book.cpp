#include "postproc/live/alert_book.h"

#include <algorithm>
#include <cstdlib>

#include "hdf5schema/basics/clocks.h"

namespace reveal {
namespace {

constexpr std::string_view kStateNames[] = {"open", "closed", "withdrawn"};
constexpr std::string_view kNewsNames[] = {"opened", "closed", "revised", "withdrawn"};

constexpr std::int64_t kApart = 2 * kSecond;      // episodes nearer than this are one: before, it is not over
constexpr std::int64_t kMoved = 2 * kSecond;      // a border that moves by less is not news
constexpr std::int64_t kBlockEdge = 5 * kSecond;  // an interval that begins here is partly dropped and no longer judged
constexpr std::int64_t kLeastHistory = kFirstAlertSeconds * kSecond;
constexpr double kMostShare = 0.25;  // share of the history: a longer interval may be normal for the job
constexpr double kSame = 0.5;        // share of the shorter interval that two sightings of one alert have in common
constexpr int kMissed = 3;           // detection runs in a row until an alert is taken back
constexpr int kSeenWeak = 2;         // detection runs until a weak one is reported
constexpr std::size_t kReasons = 5;

Alert alert_of(const Episode& episode, const LiveBlock& block) {
  Alert alert{.begin_ns = block.time_of(episode.begin), .end_ns = block.time_of(episode.end), .episode = episode};
  std::vector<Reason>& reasons = alert.episode.reasons;
  if (reasons.size() > kReasons) reasons.resize(kReasons);
  for (Reason& reason : reasons) {
    alert.channels.push_back(block.telemetry.channels.at(reason.channel));
    reason.channel = alert.channels.size() - 1;
  }
  return alert;
}

}  // namespace

std::string_view name_of(AlertState state) {
  return kStateNames[static_cast<std::size_t>(state)];
}

std::optional<AlertState> alert_state_of(std::string_view name) {
  return enumerator_of<AlertState>(kStateNames, name);
}

std::string_view name_of(AlertNews news) {
  return kNewsNames[static_cast<std::size_t>(news)];
}

std::optional<AlertNews> alert_news_of(std::string_view name) {
  return enumerator_of<AlertNews>(kNewsNames, name);
}

AlertBook::Entry* AlertBook::find(const Alert& alert, const std::vector<const Entry*>& taken) {
  Entry* best = nullptr;
  std::int64_t most = 0;
  for (Entry& entry : entries_) {
    if (std::find(taken.begin(), taken.end(), &entry) != taken.end()) continue;
    const std::int64_t overlap =
        std::min(alert.end_ns, entry.alert.end_ns) - std::max(alert.begin_ns, entry.alert.begin_ns);
    const std::int64_t shorter = std::min(alert.end_ns - alert.begin_ns, entry.alert.end_ns - entry.alert.begin_ns);
    if (overlap > most && static_cast<double>(overlap) >= kSame * static_cast<double>(shorter)) {
      most = overlap;
      best = &entry;
    }
  }
  return best;
}

void AlertBook::publish(Entry& entry, AlertNews news, std::vector<AlertChange>& changes) {
  entry.published = news != AlertNews::withdrawn;
  if (entry.alert.number == 0) entry.alert.number = ++numbers_;
  entry.last_published = entry.alert;
  changes.push_back({news, entry.alert});
}

/// After a detection run that saw it.
std::optional<AlertNews> AlertBook::news_of(const Entry& entry, bool ended) {
  const Alert& now = entry.alert;
  const Alert& before = entry.last_published;
  if (!entry.published) {
    // A change that goes on may be the program's next phase: only a strong one is published before its end.
    const bool ripe = now.episode.tier == Tier::strong ? now.state == AlertState::closed || !entry.again
                                                       : now.state == AlertState::closed && entry.runs >= kSeenWeak;
    if (now.episode.tier == Tier::none || !(ripe || ended)) return std::nullopt;
    return now.state == AlertState::open ? AlertNews::opened : AlertNews::closed;
  }
  if (now.state == AlertState::open) return std::nullopt;
  if (before.state == AlertState::open) return AlertNews::closed;
  const bool moved = std::abs(now.begin_ns - before.begin_ns) > kMoved || std::abs(now.end_ns - before.end_ns) > kMoved;
  const bool raised = now.episode.tier > before.episode.tier;
  const bool lowered = ended && now.episode.tier < before.episode.tier && now.episode.tier != Tier::none;
  return moved || raised || lowered ? std::optional(AlertNews::revised) : std::nullopt;
}

std::vector<AlertChange> AlertBook::update(const Detection& detection, const LiveBlock& block, bool ended,
                                           const std::function<void(Episode&)>& second_opinion) {
  std::vector<AlertChange> changes;
  std::vector<const Entry*> seen;
  const std::int64_t newest = block.time_of(block.telemetry.samples);
  const std::int64_t history = newest - block.first_ns;
  for (const Episode& episode : detection.episodes) {
    Alert alert = alert_of(episode, block);
    Entry* known = find(alert, seen);
    const bool little_known = history < kLeastHistory || static_cast<double>(alert.end_ns - alert.begin_ns) >
                                                             kMostShare * static_cast<double>(history);
    if (little_known && !ended && (known == nullptr || !known->published)) continue;
    // A published alert stays open with a weaker score than a new one needs.
    if (alert.episode.tier == Tier::none && (known == nullptr || !known->published || ended)) continue;
    if (known == nullptr) {
      known = &entries_.emplace_back();
    }
    alert.number = known->alert.number;
    if (alert.episode.tier == Tier::none) alert.episode.tier = known->alert.episode.tier;
    alert.state = !ended && alert.end_ns + kApart > newest ? AlertState::open : AlertState::closed;
    known->alert = std::move(alert);
    ++known->runs;
    known->missed = -1;
    seen.push_back(known);
    const auto news = news_of(*known, ended);
    if (!news) continue;
    if (second_opinion) second_opinion(known->alert.episode);
    publish(*known, *news, changes);
  }
  for (Entry& entry : entries_) {
    const bool judged = entry.alert.begin_ns >= block.first_ns + (block.starts ? 0 : kBlockEdge);
    // After a pause of minutes, an open alert may begin before the block: it must not stay open for ever.
    const bool left_open = entry.published && entry.alert.state == AlertState::open;
    entry.missed = judged || left_open ? entry.missed + 1 : 0;
    if (!entry.published || entry.missed == 0) {
      if (!entry.published && entry.missed > 0) entry.runs = 0;
      continue;
    }
    if (entry.missed < kMissed && !ended) continue;
    // The detection runs since then did not compute a second opinion.
    entry.alert.episode.methods = entry.last_published.episode.methods;
    if (!judged) {
      entry.alert.state = AlertState::closed;
      entry.missed = 0;
      publish(entry, AlertNews::closed, changes);
      continue;
    }
    entry.alert.state = AlertState::withdrawn;
    entry.again = true;
    entry.runs = 0;
    publish(entry, AlertNews::withdrawn, changes);
  }
  // No later block has them: the watch of a long job would keep them all.
  std::erase_if(entries_, [&block](const Entry& entry) {
    return entry.alert.number == 0 && entry.alert.end_ns < block.first_ns;
  });
  return changes;
}

void AlertBook::number_after(const AlertBook& earlier) {
  numbers_ = std::max(numbers_, earlier.numbers_);
}

bool AlertBook::expects_news() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
    return (entry.published && (entry.alert.state == AlertState::open || entry.missed > 0)) ||
           (!entry.published && entry.runs > 0 && entry.missed == 0);
  });
}

std::vector<Alert> AlertBook::published() const {
  std::vector<Alert> alerts;
  for (const Entry& entry : entries_) {
    if (entry.published || entry.again) alerts.push_back(entry.alert);
  }
  return alerts;
}

}  // namespace reveal
