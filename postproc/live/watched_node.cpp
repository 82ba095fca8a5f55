#include "postproc/live/watched_node.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "postproc/json/shallow_json.h"
#include "postproc/telemetry/publish.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kHistory = 60;
constexpr auto kStatusPeriod = 5s;
constexpr auto kPacePeriod = 20s;
constexpr std::size_t kLargestStatus = 64 << 10;

/// Without the times, which the node's clock gives.
AlertNotice notice_of(const AlertChange& change) {
  const Episode& episode = change.alert.episode;
  AlertNotice notice{.news = change.news,
                     .number = change.alert.number,
                     .state = change.alert.state,
                     .tier = episode.tier,
                     .subsystem = episode.subsystem,
                     .score = episode.score,
                     .methods = episode.methods,
                     .labels = episode.labels,
                     .claim = episode.claim};
  notice.reasons.reserve(episode.reasons.size());
  for (const Reason& reason : episode.reasons) {
    const Channel& channel = change.alert.channels.at(reason.channel);
    notice.reasons.push_back({channel.name(), unit_of(channel), reason.observed, reason.expected, reason.share});
  }
  return notice;
}

}  // namespace

const std::vector<MetricFact>& meters() {
  static const std::vector<MetricFact> kMeters = [] {
    std::vector<MetricFact> all(metric_facts().begin(), metric_facts().end());
    std::erase_if(all, [](const MetricFact& fact) { return fact.meter.empty(); });
    return all;
  }();
  return kMeters;
}

WatchedNode::WatchedNode(const std::filesystem::path& trace)
    : folder_(trace.parent_path()), trace_(trace, kLiveBlock), history_(meters().size()) {}

std::int64_t WatchedNode::heard_utc_ns() const {
  const std::int64_t newest = trace_.rows().newest_ns();
  return newest == 0 ? 0 : trace_.utc_of(newest);
}

double WatchedNode::job_seconds() const {
  const std::int64_t newest = trace_.rows().newest_ns();
  if (newest == 0) return 0;
  return static_cast<double>(trace_.utc_of(newest) - trace_.header().begin_utc_ns) * 1e-9;
}

std::vector<AlertNotice> WatchedNode::advance(std::chrono::steady_clock::time_point now, CpuBudget& budget) {
  if (ended_) return {};
  trace_.poll(now);
  silent_seconds_ = trace_.silent_seconds(now);
  ended_ = trace_.state() == LiveState::closed;
  const double seconds = std::chrono::duration<double>(now.time_since_epoch()).count();
  std::vector<AlertNotice> notices;
  for (const AlertChange& change :
       detector_.advance(trace_.rows(), trace_.header(), trace_.utc_of(0), seconds, ended_, budget)) {
    AlertNotice& notice = notices.emplace_back(notice_of(change));
    notice.node = trace_.node();
    notice.published_utc_ns = utc_now_ns();
    notice.begin_utc_ns = trace_.utc_of(change.alert.begin_ns);
    notice.end_utc_ns = trace_.utc_of(change.alert.end_ns);
    notice.window_end_utc_ns = trace_.utc_of(detector_.seen_until_ns());
    notice.last_run_utc_ns = detector_.seen_before_ns() > 0 ? trace_.utc_of(detector_.seen_before_ns()) : 0;
  }
  read_meters();
  read_pace(now);
  read_status(now);
  return notices;
}

void WatchedNode::read_meters() {
  const std::int64_t newest = trace_.rows().newest_ns();
  if (newest - metered_ns_ < kSecond) return;
  metered_ns_ = std::max(metered_ns_ + kSecond, newest - static_cast<std::int64_t>(kHistory) * kSecond);
  while (newest - metered_ns_ >= kSecond) metered_ns_ += kSecond;
  for (std::size_t i = 0; i < meters().size(); ++i) {
    const auto level = trace_.rows().level(meters()[i].metric, metered_ns_ - kSecond, metered_ns_);
    history_[i].push_back(level.value_or(std::numeric_limits<double>::quiet_NaN()));
    if (history_[i].size() > kHistory) history_[i].pop_front();
  }
}

void WatchedNode::read_pace(std::chrono::steady_clock::time_point now) {
  if (now < next_pace_) return;
  next_pace_ = now + kPacePeriod;
  pace_ = live_pace(trace_);
}

/// The collector's own cost: that of watching is shown beside it, not in it.
void WatchedNode::read_status(std::chrono::steady_clock::time_point now) {
  if (now < next_status_) return;
  next_status_ = now + kStatusPeriod;
  try {
    const auto status =
        nlohmann::json::parse(shallow(read_text_file(folder_ / (trace_.node() + ".status.json"), kLargestStatus)));
    collector_percent_ = status.at("cpu_percent_of_core").get<double>();
  } catch (const std::exception&) {
    return;  // the first one comes after ten seconds
  }
}

}  // namespace reveal
