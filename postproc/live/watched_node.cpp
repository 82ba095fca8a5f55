#include "postproc/live/watched_node.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "postproc/detect/scan/claim.h"
#include "postproc/telemetry/publish.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kHistory = 60;
constexpr auto kStatusPeriod = 5s;
constexpr auto kPacePeriod = 20s;
constexpr std::size_t kLargestStatus = 64 << 10;

/// The claim with the names of programs; as it was where more reasons made it than an alert keeps.
std::string claim_with_programs(const Alert& alert, std::span<const Channel> named) {
  const Episode& episode = alert.episode;
  if (episode.end <= episode.begin) return episode.claim;
  const double step_seconds =
      static_cast<double>(alert.end_ns - alert.begin_ns) * 1e-9 / static_cast<double>(episode.end - episode.begin);
  const bool known = claim_of(episode, alert.channels, step_seconds) == episode.claim;
  return known ? claim_of(episode, named, step_seconds) : episode.claim;
}

/// Without the times, which the node's clock gives. `named`: the channels of its reasons, with their programs.
AlertNotice notice_of(const AlertChange& change, std::span<const Channel> named) {
  const Episode& episode = change.alert.episode;
  AlertNotice notice{.news = change.news,
                     .number = change.alert.number,
                     .state = change.alert.state,
                     .tier = episode.tier,
                     .subsystem = episode.subsystem,
                     .score = episode.score,
                     .methods = episode.methods,
                     .labels = episode.labels,
                     .claim = claim_with_programs(change.alert, named)};
  notice.reasons.reserve(episode.reasons.size());
  for (const Reason& reason : episode.reasons) {
    const Channel& channel = named[reason.channel];
    notice.reasons.push_back(
        {channel.name(), unit_of(channel), reason.observed, reason.expected, reason.share, channel.program});
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

NodeView WatchedNode::view(std::size_t meter_values) const {
  const std::int64_t newest = trace_.rows().newest_ns();
  const TraceHeader& header = trace_.header();
  NodeView view{.node = trace_.node(),
                .state = trace_.state(),
                .problem = trace_.problem(),
                .channels = trace_.rows().channels(),
                .collector_percent = status_.cpu_percent,
                .silent_seconds = silent_seconds_,
                .pace = pace_now(),
                .job = header.job_id,
                .job_name = header.job_name,
                .command = header.command,
                .meters = {}};
  if (newest > 0) {
    view.heard_utc_ns = trace_.utc_of(newest);
    view.seconds = static_cast<double>(newest - trace_.begin_ns()) * 1e-9;
  }
  for (std::size_t i = 0; i < meters().size(); ++i) {
    const std::deque<double>& values = history_[i];
    const auto shown = static_cast<std::ptrdiff_t>(std::min(meter_values, values.size()));
    if (shown > 0) view.meters.push_back({std::string(meters()[i].metric), {values.end() - shown, values.end()}});
  }
  return view;
}

/// The process of a counter such as "process.cpu_time/slot2".
std::string WatchedNode::program_of(const EarlierInterval& interval) {
  const std::size_t slash = interval.farthest.find('/');
  if (!interval.farthest.starts_with("process.") || slash == std::string::npos) return "";
  const std::int64_t offset = trace_.utc_of(0);
  Channel channel{.instance = interval.farthest.substr(slash + 1), .scope = Scope::process};
  trace_.name_programs({interval.begin_utc_ns - offset, interval.end_utc_ns - offset}, {&channel, 1});
  return channel.program;
}

std::vector<EarlierInterval> WatchedNode::take_earlier() {
  // The status may come before the rows: with none of them, nothing is known to be earlier.
  if (earlier_taken_ || first_row_ns_ == 0 || !status_.cpu_percent) return {};
  earlier_taken_ = true;
  std::vector<EarlierInterval> earlier;
  for (EarlierInterval& interval : status_.closed) {
    if (interval.end_utc_ns > trace_.utc_of(first_row_ns_)) continue;  // the detectors judge it
    interval.node = trace_.node();
    interval.program = program_of(interval);
    earlier.push_back(std::move(interval));
  }
  return earlier;
}

std::vector<AlertNotice> WatchedNode::detect(std::chrono::steady_clock::time_point now, CpuBudget& budget) {
  const double seconds = std::chrono::duration<double>(now.time_since_epoch()).count();
  std::vector<AlertNotice> notices;
  for (const AlertChange& change :
       detector_.advance(trace_.rows(), trace_.header(), trace_.utc_of(0), seconds, ended_, budget)) {
    std::vector<Channel> channels = change.alert.channels;
    trace_.name_programs({change.alert.begin_ns, change.alert.end_ns}, channels);
    AlertNotice& notice = notices.emplace_back(notice_of(change, channels));
    notice.node = trace_.node();
    notice.published_utc_ns = utc_now_ns();
    notice.begin_utc_ns = trace_.utc_of(change.alert.begin_ns);
    notice.end_utc_ns = trace_.utc_of(change.alert.end_ns);
    notice.window_end_utc_ns = trace_.utc_of(detector_.seen_until_ns());
    notice.last_run_utc_ns = detector_.seen_before_ns() > 0 ? trace_.utc_of(detector_.seen_before_ns()) : 0;
  }
  return notices;
}

std::vector<AlertNotice> WatchedNode::end(std::chrono::steady_clock::time_point now, CpuBudget& budget) {
  if (std::exchange(ended_, true)) return {};
  return detect(now, budget);
}

std::vector<AlertNotice> WatchedNode::advance(std::chrono::steady_clock::time_point now, CpuBudget& budget) {
  if (ended_) return {};
  trace_.poll(now);
  silent_seconds_ = trace_.silent_seconds(now);
  ended_ = trace_.state() == LiveState::closed;
  std::vector<AlertNotice> notices = detect(now, budget);
  if (first_row_ns_ == 0) first_row_ns_ = trace_.rows().oldest_ns();
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
  Pace pace = live_pace(trace_).value_or(Pace{});
  // The begin of the job may no longer be among the rows.
  if (pace.estimated && pace_.estimated && std::isnan(pace.done)) pace.done = pace_now().done;
  pace_ = pace;
  paced_until_ns_ = trace_.rows().newest_ns();
}

/// With the iterations since it was read, which go on as fast as they did.
Pace WatchedNode::pace_now() const {
  Pace pace = pace_;
  pace.done += static_cast<double>(trace_.rows().newest_ns() - paced_until_ns_) * 1e-9 * pace.per_second;
  pace.planned = status_.iterations_planned;
  return pace;
}

/// The collector's own cost: that of watching is shown beside it, not in it.
void WatchedNode::read_status(std::chrono::steady_clock::time_point now) {
  if (now < next_status_) return;
  next_status_ = now + kStatusPeriod;
  try {
    status_ = parse_collector_status(read_text_file(folder_ / (trace_.node() + ".status.json"), kLargestStatus));
  } catch (const std::exception&) {
    return;  // the first one comes after ten seconds
  }
}

}  // namespace reveal
