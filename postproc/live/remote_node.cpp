#include "postproc/live/remote_node.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_pattern.h"
#include "postproc/json/shallow_json.h"
#include "postproc/live/watch_fields.h"
#include "postproc/words/sanitize.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;

constexpr auto kSilentWatch = 15s;      // it reports every five seconds
constexpr double kTextsPerSecond = 20;  // in the long run
constexpr double kTextsAtOnce = 500;
constexpr std::size_t kMostMeterValues = 60;
constexpr std::size_t kMostMeters = 40;
constexpr std::size_t kMostReasons = 10;
constexpr std::size_t kLongestName = 200;
constexpr std::size_t kLongestClaim = 1000;
constexpr double kMostSeconds = 1e9;

/// A plain number within limits; 0 for anything else.
double within(double value, double most) {
  return std::isfinite(value) ? std::clamp(value, 0.0, most) : 0;
}

void clean(std::optional<double>& value, double most) {
  if (value) value = within(*value, most);
}

void clean(std::string& text, std::size_t limit) {
  text = printable(text, limit);
}

void clean(NodeView& view) {
  view.node = file_name_part(printable(view.node, kLongestName));
  for (std::string* text : {&view.problem, &view.job, &view.job_name, &view.command}) clean(*text, kLongestName);
  view.seconds = within(view.seconds, kMostSeconds);
  view.silent_seconds = within(view.silent_seconds, kMostSeconds);
  view.channels = std::min<std::size_t>(view.channels, 10'000'000);
  clean(view.collector_percent, 1e6);
  view.pace.per_second = within(view.pace.per_second, 1e9);
  if (!(view.pace.done >= 0 && view.pace.done <= 1e15)) view.pace.done = std::nan("");
  view.pace.planned = std::clamp<std::int64_t>(view.pace.planned, 0, 1'000'000'000'000);
  if (view.meters.size() > kMostMeters) view.meters.resize(kMostMeters);
  for (NodeView::Meter& meter : view.meters) {
    if (meter.values.size() > kMostMeterValues) meter.values.resize(kMostMeterValues);
  }
}

void clean(AlertNotice& notice) {
  clean(notice.claim, kLongestClaim);
  if (notice.reasons.size() > kMostReasons) notice.reasons.resize(kMostReasons);
  for (AlertNotice::Reason& reason : notice.reasons) {
    clean(reason.channel, kLongestName);
    clean(reason.unit, kLongestName);
    clean(reason.program, kLongestName);
  }
}

void clean(EarlierInterval& interval) {
  clean(interval.farthest, kLongestName);
  clean(interval.program, kLongestName);
  interval.direction = interval.direction == "above" || interval.direction == "below" ? interval.direction : "";
}

template <class Type>
Type read_as(const Json& json) {
  Type value;
  JsonReader reader(json, "a watch");
  fields(reader, value);
  return value;
}

}  // namespace

bool RemoteNode::may_send(Time now) {
  const double seconds = heard_ || refilled_ != Time{} ? std::chrono::duration<double>(now - refilled_).count() : 1e9;
  refilled_ = now;
  allowance_ = std::min(kTextsAtOnce, allowance_ + kTextsPerSecond * seconds);
  if (allowance_ < 1) return false;
  allowance_ -= 1;
  return true;
}

void RemoteNode::take(const std::string& text, Time now, News& news) {
  if (!may_send(now)) {
    if (!std::exchange(named_, true)) news.problem = "sends more than a watch does: the rest is left out";
    return;
  }
  try {
    const Json json = parse_json(shallow(text), "a watch");
    const std::string schema = json.value("schema", "");
    if (schema == "reveal.node/1") take_report(read_as<NodeReport>(json), now);
    if (!heard_) return;  // its name is not known yet
    if (schema == "reveal.alert/1") {
      AlertNotice& notice = news.alerts.emplace_back(read_as<AlertNotice>(json));
      notice.node = report_.view.node;
      clean(notice);
    } else if (schema == "reveal.watch/1" && json.value("news", "") == "before") {
      EarlierInterval& interval = news.earlier.emplace_back(read_as<EarlierNotice>(json).interval);
      interval.node = report_.view.node;
      clean(interval);
    }
  } catch (const std::exception&) {
    if (!std::exchange(named_, true)) news.problem = "sends texts that are not those of a watch: they are left out";
  }
}

void RemoteNode::take_report(NodeReport report, Time now) {
  clean(report.view);
  clean(report.hang, kLongestClaim);
  clean(report.watching_percent, 1e6);
  report.runs = std::clamp<std::int64_t>(report.runs, 0, 1'000'000'000);
  report.runs_skipped = std::clamp<std::int64_t>(report.runs_skipped, 0, 1'000'000'000);
  if (heard_) report.view.node = report_.view.node;
  if (report.view.node.empty()) throw Error("a node without a name");
  history_.resize(std::max(history_.size(), report.view.meters.size()));
  for (std::size_t i = 0; i < report.view.meters.size(); ++i) {
    NodeView::Meter& kept = history_[i];
    const NodeView::Meter& now_seen = report.view.meters[i];
    if (kept.metric != now_seen.metric) kept = {now_seen.metric, {}};
    kept.values.insert(kept.values.end(), now_seen.values.begin(), now_seen.values.end());
    if (kept.values.size() > kMostMeterValues) {
      kept.values.erase(kept.values.begin(), kept.values.end() - kMostMeterValues);
    }
  }
  report_ = std::move(report);
  report_.view.meters.clear();
  heard_ = true;
  last_report_ = now;
}

NodeView RemoteNode::view(Time now) const {
  NodeView view = report_.view;
  view.meters = history_;
  const double seconds = std::chrono::duration<double>(now - last_report_).count();
  if (!view.ended() && !unrecorded() && now - last_report_ > kSilentWatch) {
    view.silent_seconds = view.state == LiveState::silent ? view.silent_seconds + seconds : seconds;
    view.state = LiveState::silent;
  }
  return view;
}

}  // namespace reveal
