#include "postproc/report/anomalous_time.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace reveal {
namespace {

constexpr std::size_t kMostTimes = 1000;      // entries of a job; summaries of others may have invented names
constexpr std::size_t kMostNodeMetrics = 24;  // metrics of a node: its summary stays small

using Spans = std::vector<TimeSpan>;

double seconds_covered(Spans spans) {
  std::sort(spans.begin(), spans.end(),
            [](const TimeSpan& a, const TimeSpan& b) { return a.begin_utc_ns < b.begin_utc_ns; });
  std::int64_t covered = 0;
  std::int64_t end = 0;
  for (const TimeSpan& span : spans) {
    covered += std::max<std::int64_t>(0, span.end_utc_ns - std::max(end, span.begin_utc_ns));
    end = std::max(end, span.end_utc_ns);
  }
  return static_cast<double>(covered) * 1e-9;
}

void add(AnomalousTime::By by, const std::map<std::string, Spans>& spans, std::vector<AnomalousTime>& times) {
  for (const auto& [name, all] : spans) {
    const double seconds = seconds_covered(all);
    if (seconds > 0) times.push_back({by, name, seconds, 0});
  }
}

/// All subsystems and detectors, then the metrics; the longest first.
void keep_longest(std::vector<AnomalousTime>& times) {
  std::stable_sort(times.begin(), times.end(), [](const AnomalousTime& a, const AnomalousTime& b) {
    return a.by != b.by ? a.by < b.by : a.seconds > b.seconds;
  });
  std::size_t metrics = 0;
  std::erase_if(times, [&metrics](const AnomalousTime& time) {
    return time.by == AnomalousTime::By::metric && ++metrics > kMostNodeMetrics;
  });
}

}  // namespace

std::vector<AnomalousTime> anomalous_time(const std::vector<ReportEpisode>& episodes) {
  std::map<std::string, Spans> subsystems;
  std::map<std::string, Spans> found_by;
  std::map<std::string, Spans> metrics;
  for (const ReportEpisode& episode : episodes) {
    if (episode.tier == Tier::none) continue;  // each node has some at its begin and end
    subsystems[std::string(name_of(episode.subsystem))].push_back(episode.span);
    for (const Method method : episode.methods) found_by[std::string(name_of(method))].push_back(episode.span);
    std::set<std::string> named;  // once, however many of its instances differ
    for (const ReportEpisode::Reason& reason : episode.reasons) {
      if (named.insert(reason.metric).second) metrics[reason.metric].push_back(episode.span);
    }
  }
  std::vector<AnomalousTime> times;
  add(AnomalousTime::By::subsystem, subsystems, times);
  add(AnomalousTime::By::detector, found_by, times);
  add(AnomalousTime::By::metric, metrics, times);
  keep_longest(times);
  return times;
}

void add_anomalous_time(const std::vector<AnomalousTime>& of_node, std::vector<AnomalousTime>& of_job) {
  for (const AnomalousTime& time : of_node) {
    const auto same = std::find_if(of_job.begin(), of_job.end(), [&time](const AnomalousTime& other) {
      return other.by == time.by && other.name == time.name;
    });
    if (same == of_job.end()) {
      if (of_job.size() < kMostTimes) of_job.push_back(time);
    } else {
      same->seconds += time.seconds;
    }
  }
}

void finish_anomalous_time(std::vector<AnomalousTime>& of_job) {
  double all = 0;
  for (const AnomalousTime& time : of_job) {
    if (time.by == AnomalousTime::By::subsystem) all += time.seconds;
  }
  for (AnomalousTime& time : of_job) time.percent = all > 0 ? 100 * time.seconds / all : 0;
  keep_longest(of_job);
}

}  // namespace reveal
