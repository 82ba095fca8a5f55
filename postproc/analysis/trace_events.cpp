#include "postproc/analysis/trace_events.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "hdf5schema/basics/clocks.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/version.h"
#include "postproc/json/json_fields.h"
#include "postproc/report/wording.h"
#include "postproc/telemetry/left_out_traces.h"
#include "postproc/telemetry/metric_facts.h"
#include "postproc/telemetry/telemetry_table.h"
#include "postproc/telemetry/trace_stream.h"
#include "postproc/words/times.h"

namespace reveal {
namespace {

constexpr std::size_t kTextAtOnce = 1 << 20;
constexpr std::size_t kValuesAtOnce = 4'000'000;
constexpr std::size_t kMostPoints = 600'000;           // points of all counters
constexpr std::size_t kMostCounters = 200;             // counters of a node
constexpr std::size_t kMostStepSlices = 200'000;       // slices of all ranks
constexpr std::size_t kMostCollectiveMarks = 200'000;  // marks of all ranks
constexpr std::size_t kMostRanks = 64;                 // ranks of a node: process slots are fewer
constexpr std::size_t kMostLanes = 32;                 // lanes for slices that overlap
constexpr std::size_t kReasons = 3;                    // reasons of an episode
constexpr std::int64_t kFarthestTime = INT64_MAX / 3;  // times are untrusted, and are added
constexpr std::int64_t kLeastMargin = 5 * kSecond;
constexpr double kWholeShare = 0.9;  // share of the job: an interval with a useful time is shorter

/// Threads are numbers, in the order of display.
constexpr int kExportedThread = 1;
constexpr int kFirstFinding = 100;
constexpr int kFirstEpisode = 200;
constexpr int kFirstRank = 300;
constexpr int kFirstRankOfCollectives = 400;

std::int64_t bounded(std::int64_t time_ns) {
  return std::clamp(time_ns, -kFarthestTime, kFarthestTime);
}

TimeSpan bounded(const TimeSpan& span) {
  return {bounded(span.begin_utc_ns), bounded(span.end_utc_ns)};
}

/// The text, which grows piece by piece; names and sentences are escaped by the library, whatever is in them.
class Events {
 public:
  Events(const Report& report, const std::function<void(std::string_view)>& out)
      : origin_ns_(bounded(report.job.begin_utc_ns)), out_(out) {
    const Json about = {{"tool", "reveal " REVEAL_VERSION},
                        {"job", report.job.id},
                        {"report_id", report.report_id},
                        {"time_0", iso_time(origin_ns_)}};
    text_ = R"({"displayTimeUnit":"ms","otherData":)" + in_text(about) + ",\"traceEvents\":[\n";
  }
  void finish() {
    text_ += "\n]}\n";
    out_(text_);
  }

  void name_process(std::size_t process, const std::string& name) {
    add({{"ph", "M"}, {"name", "process_name"}, {"pid", process}, {"args", {{"name", name}}}});
    add({{"ph", "M"}, {"name", "process_sort_index"}, {"pid", process}, {"args", {{"sort_index", process}}}});
  }
  void name_thread(std::size_t process, int thread, const std::string& name) {
    add({{"ph", "M"}, {"name", "thread_name"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}});
    add({{"ph", "M"},
         {"name", "thread_sort_index"},
         {"pid", process},
         {"tid", thread},
         {"args", {{"sort_index", thread}}}});
  }
  void add_slice(std::size_t process, int thread, const char* category, const std::string& name, const TimeSpan& span,
                 Json about) {
    const std::int64_t length = std::max<std::int64_t>(0, span.end_utc_ns - span.begin_utc_ns);
    add({{"ph", "X"},
         {"name", name},
         {"cat", category},
         {"pid", process},
         {"tid", thread},
         {"ts", microseconds(span.begin_utc_ns - origin_ns_)},
         {"dur", microseconds(length)},
         {"args", std::move(about)}});
  }
  void add_instant(std::size_t process, int thread, const char* category, const std::string& name, std::int64_t utc_ns,
                   Json about) {
    add({{"ph", "i"},
         {"s", "t"},
         {"name", name},
         {"cat", category},
         {"pid", process},
         {"tid", thread},
         {"ts", microseconds(utc_ns - origin_ns_)},
         {"args", std::move(about)}});
  }
  void add_counter(std::size_t process, const std::string& name, const std::string& unit, std::int64_t utc_ns,
                   double value) {
    add({{"ph", "C"},
         {"name", name},
         {"pid", process},
         {"ts", microseconds(utc_ns - origin_ns_)},
         {"args", {{unit, four_digits(value)}}}});
  }

 private:
  static double microseconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }
  static std::string in_text(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

  void add(const Json& event) {
    if (!std::exchange(first_, false)) text_ += ",\n";
    text_ += in_text(event);
    if (text_.size() < kTextAtOnce) return;
    out_(text_);
    text_.clear();
  }

  std::int64_t origin_ns_;
  const std::function<void(std::string_view)>& out_;
  std::string text_;
  bool first_ = true;
};

/// Something of a node that has a begin and an end.
struct Slice {
  std::string name;
  TimeSpan span;
  Json about;
};

/// The report's marks of one node.
struct Marked {
  std::vector<Slice> findings, episodes;
  std::set<std::string> channels;  // names and metrics
};

Json about_finding(const Finding& finding) {
  return {{"rule", finding.id},
          {"severity", name_of(finding.severity)},
          {"confidence", name_of(finding.confidence)},
          {"sentence", finding.sentence}};
}

Json about_episode(const ReportEpisode& episode) {
  Json methods = Json::array();
  for (const Method method : episode.methods) methods.push_back(name_of(method));
  return {{"tier", name_of(episode.tier)},
          {"score", four_digits(episode.score)},
          {"subsystem", name_of(episode.subsystem)},
          {"methods", std::move(methods)}};
}

Marked marked_on(const std::string& node, const Report& report) {
  Marked marked;
  const auto want = [&marked](const std::string& metric, const std::string& instance) {
    marked.channels.insert(instance.empty() ? metric : channel_name(metric, instance));
  };
  for (const Finding& finding : report.findings) {
    if (std::find(finding.nodes.begin(), finding.nodes.end(), node) == finding.nodes.end()) continue;
    for (const TimeSpan& span : finding.intervals) {
      marked.findings.push_back({finding.title, bounded(span), about_finding(finding)});
    }
    for (const Evidence& evidence : finding.evidence) want(evidence.metric, evidence.instance);
  }
  for (const ReportEpisode& episode : report.episodes) {
    if (episode.node != node) continue;
    const std::string& name = episode.claim.empty() ? std::string(name_of(episode.subsystem)) : episode.claim;
    marked.episodes.push_back({name, bounded(episode.span), about_episode(episode)});
    for (std::size_t i = 0; i < std::min(kReasons, episode.reasons.size()); ++i) {
      want(episode.reasons[i].metric, episode.reasons[i].instance);
    }
  }
  for (const TimelineChannel& line : report.timeline) {
    if (line.node == node) marked.channels.insert(line.name);
  }
  return marked;
}

/// The intervals of findings and episodes with a part of the job around them; those that last as long as the job only
/// where there are no others. Throws Error where there are none at all.
std::vector<TimeSpan> windows_of(const Report& report, bool whole_job) {
  const TimeSpan job = bounded(TimeSpan{report.job.begin_utc_ns, report.job.end_utc_ns});
  if (whole_job) return {job};
  std::vector<TimeSpan> shorter;
  std::vector<TimeSpan> longer;
  const auto add = [&](const TimeSpan& any) {
    const TimeSpan span = bounded(any);
    const std::int64_t length = std::max<std::int64_t>(0, span.end_utc_ns - span.begin_utc_ns);
    const auto most = kWholeShare * static_cast<double>(job.end_utc_ns - job.begin_utc_ns);
    const std::int64_t margin = std::max(kLeastMargin, length / 4);
    (static_cast<double>(length) < most ? shorter : longer)
        .push_back(bounded(TimeSpan{span.begin_utc_ns - margin, span.end_utc_ns + margin}));
  };
  for (const Finding& finding : report.findings) {
    for (const TimeSpan& span : finding.intervals) add(span);
  }
  for (const ReportEpisode& episode : report.episodes) add(episode.span);
  if (shorter.empty() && longer.empty()) {
    throw Error("the report shows no anomalous interval; --whole-job exports the whole job");
  }
  return united(shorter.empty() ? longer : shorter);
}

/// Slices of a thread may not overlap: each is put on the first of several where it fits.
void add_slices(Events& events, std::size_t process, int first_thread, const char* category, std::vector<Slice> slices,
                std::size_t& left_out) {
  std::stable_sort(slices.begin(), slices.end(),
                   [](const Slice& a, const Slice& b) { return a.span.begin_utc_ns < b.span.begin_utc_ns; });
  std::vector<std::int64_t> ends;  // end of the last slice in each lane
  for (Slice& slice : slices) {
    const auto has_room = [&slice](std::int64_t end) { return end <= slice.span.begin_utc_ns; };
    const auto lane = std::find_if(ends.begin(), ends.end(), has_room) - ends.begin();
    if (static_cast<std::size_t>(lane) == kMostLanes) {
      ++left_out;
      continue;
    }
    const int thread = first_thread + static_cast<int>(lane);
    if (static_cast<std::size_t>(lane) == ends.size()) {
      events.name_thread(process, thread, lane == 0 ? category : fmt::format("{} {}", category, lane + 1));
      ends.push_back(0);
    }
    ends[static_cast<std::size_t>(lane)] = std::max(slice.span.begin_utc_ns + 1, slice.span.end_utc_ns);
    events.add_slice(process, thread, category, slice.name, slice.span, std::move(slice.about));
  }
}

bool is_within(std::span<const TimeSpan> windows, const TimeSpan& span) {
  return std::any_of(windows.begin(), windows.end(), [&span](const TimeSpan& window) { return span.overlaps(window); });
}

/// The steps of a rank that are in a window, in order.
void add_steps(Events& events, std::size_t process, const NodeTrace& trace, std::span<const TimeSpan> windows,
               std::size_t& room, std::size_t& left_out) {
  std::map<std::string, std::vector<const TrainingStep*>> ranks;
  for (const TrainingStep& step : trace.steps) {
    if (step.begin_ns != bounded(step.begin_ns)) continue;
    if (ranks.size() < kMostRanks || ranks.contains(step.rank)) ranks[step.rank].push_back(&step);
  }
  constexpr const char* kStep = "training step";  // it lasts until the next backward pass begins
  const std::int64_t to_utc = bounded(trace.utc_minus_monotonic_ns);
  int thread = kFirstRank;
  for (auto& [rank, steps] : ranks) {
    std::stable_sort(steps.begin(), steps.end(),
                     [](const auto* a, const auto* b) { return a->begin_ns < b->begin_ns; });
    events.name_thread(process, thread, rank);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const TrainingStep& step = *steps[i];
      const std::int64_t next = i + 1 < steps.size() ? steps[i + 1]->begin_ns : kFarthestTime;
      const bool ended = step.duration_ns >= 0;
      const std::int64_t length = ended ? std::min(step.duration_ns, next - step.begin_ns) : 0;
      const TimeSpan span{step.begin_ns + to_utc, step.begin_ns + length + to_utc};
      if (!is_within(windows, {span.begin_utc_ns, span.end_utc_ns + 1})) continue;
      if (room == 0) {
        ++left_out;
        continue;
      }
      --room;
      Json about = {{"number", step.number}};
      if (step.waiting_ns >= 0) about["waiting_ms"] = static_cast<double>(step.waiting_ns) / 1e6;
      if (step.gc_ns >= 0) about["gc_ms"] = static_cast<double>(step.gc_ns) / 1e6;
      if (step.bytes >= 0) about["bytes"] = step.bytes;
      if (ended) {
        events.add_slice(process, thread, "step", kStep, span, std::move(about));
      } else {
        events.add_instant(process, thread, "step", kStep, span.begin_utc_ns, std::move(about));
      }
    }
    ++thread;
  }
}

/// When each rank entered collectives, of those that are in a window.
void add_collectives(Events& events, std::size_t process, const NodeTrace& trace, std::span<const TimeSpan> windows,
                     std::size_t& room, std::size_t& left_out) {
  const std::int64_t to_utc = bounded(trace.utc_minus_monotonic_ns);
  std::map<std::string, int> threads;
  for (const SampledCollective& call : trace.collectives) {
    const std::int64_t at = bounded(call.begin_ns) + to_utc;
    const bool has_thread = threads.size() < kMostRanks || threads.contains(call.rank);
    if (call.begin_ns != bounded(call.begin_ns) || !has_thread || !is_within(windows, {at, at + 1})) continue;
    if (room == 0) {
      ++left_out;
      continue;
    }
    --room;
    const auto [thread, fresh] =
        threads.try_emplace(call.rank, kFirstRankOfCollectives + static_cast<int>(threads.size()));
    if (fresh) events.name_thread(process, thread->second, call.rank + ": collectives");
    events.add_instant(process, thread->second, "collective", call.function, at,
                       {{"number", call.number}, {"communicator", call.communicator}});
  }
}

/// Means of a channel's samples, so many at a time, as they come.
class CounterTrack {
 public:
  CounterTrack(const Channel& channel, std::size_t column, double step_seconds)
      : name_(channel.name()), column_(column) {
    std::tie(unit_, factor_) = shown_unit(channel, step_seconds);
    if (unit_.empty()) unit_ = "value";
  }
  [[nodiscard]] std::size_t column() const { return column_; }

  void add(std::size_t point, double value, std::int64_t utc_ns, std::size_t process, Events& events) {
    if (point != point_) flush(process, events);
    if (std::isnan(value)) return;
    if (count_ == 0) begin_utc_ns_ = utc_ns;
    point_ = point;
    sum_ += value;
    ++count_;
  }
  void flush(std::size_t process, Events& events) {
    if (count_ == 0) return;
    events.add_counter(process, name_, unit_, begin_utc_ns_, sum_ / static_cast<double>(count_) * factor_);
    sum_ = 0;
    count_ = 0;
  }

 private:
  std::string name_, unit_;
  double factor_ = 1;
  std::size_t column_;
  std::size_t point_ = 0;
  std::int64_t begin_utc_ns_ = 0;
  double sum_ = 0;
  std::size_t count_ = 0;
};

struct SampleRange {
  std::size_t begin, end;
};

std::vector<SampleRange> samples_in(std::span<const TimeSpan> windows, const Telemetry& job, std::size_t samples) {
  const double step_ns = job.step_seconds * 1e9;
  const auto sample_at = [&](std::int64_t utc_ns) {
    const double at = static_cast<double>(utc_ns - bounded(job.begin_utc_ns)) / step_ns;
    return static_cast<std::size_t>(std::clamp(at, 0.0, static_cast<double>(samples)));
  };
  std::vector<SampleRange> ranges;
  for (const TimeSpan& window : windows) {
    const SampleRange range{sample_at(window.begin_utc_ns), sample_at(window.end_utc_ns)};
    if (range.begin < range.end) ranges.push_back(range);
  }
  return ranges;
}

class NodeExport {
 public:
  NodeExport(const TraceEventChoice& choice, const Marked& marked, std::size_t process, std::size_t points)
      : choice_(choice), marked_(marked), process_(process), points_(points) {}

  void add_counters(TraceStream& stream, std::span<const TimeSpan> windows, Events& events) {
    const Telemetry& job = stream.trace().telemetry;
    const std::vector<SampleRange> ranges = samples_in(windows, job, stream.samples());
    std::size_t wanted = 0;
    for (const SampleRange& range : ranges) wanted += range.end - range.begin;
    if (wanted == 0) return;
    const std::size_t width = std::max<std::size_t>(1, job.channels.size());
    const std::size_t at_once = std::max<std::size_t>(1, kValuesAtOnce / width);
    Telemetry piece;
    std::size_t each = 1;  // samples of a point
    // Reads from the begin on: the start value of a counter is only known at its first row.
    for (std::size_t begin = 0; begin < ranges.back().end; begin += at_once) {
      stream.read(begin, std::min(at_once, stream.samples() - begin), piece);
      if (begin == 0) {
        choose(piece);
        const std::size_t points = std::max<std::size_t>(1, points_ / std::max<std::size_t>(1, counters_.size()));
        each = (wanted + points - 1) / points;
      }
      for (const SampleRange& range : ranges) add(piece, begin, range, each, events);
    }
    for (CounterTrack& counter : counters_) counter.flush(process_, events);
  }

  [[nodiscard]] std::size_t left_out() const { return left_out_; }
  [[nodiscard]] bool chose_any() const { return !counters_.empty(); }

 private:
  [[nodiscard]] bool is_wanted(const Channel& channel) const {
    if (!choice_.metrics.empty()) {
      return std::any_of(choice_.metrics.begin(), choice_.metrics.end(),
                         [&channel](const std::string& pattern) { return meets_pattern(pattern, channel); });
    }
    return marked_.channels.contains(channel.metric) || marked_.channels.contains(channel.name()) ||
           (channel.family.starts_with("stack/") && channel.subsystem != Subsystem::self) ||
           fact_of(channel.metric, &MetricFact::usual_timeline);
  }

  void choose(const Telemetry& piece) {
    for (std::size_t i = 0; i < piece.channels.size(); ++i) {
      if (!is_wanted(piece.channels[i])) continue;
      if (counters_.size() == kMostCounters) {
        ++left_out_;
      } else {
        counters_.emplace_back(piece.channels[i], i, piece.step_seconds);
      }
    }
  }

  void add(const Telemetry& piece, std::size_t begin, const SampleRange& range, std::size_t each, Events& events) {
    const std::size_t first = std::max(range.begin, begin);
    const std::size_t last = std::min(range.end, begin + piece.samples);
    for (CounterTrack& counter : counters_) {
      const auto series = std::as_const(piece).series(counter.column());
      for (std::size_t t = first; t < last; ++t) {
        const double later = static_cast<double>(t - begin) * piece.step_seconds;
        counter.add(t / each, series[t - begin], bounded(piece.begin_utc_ns) + std::llround(later * 1e9), process_,
                    events);
      }
      if (last == range.end && first < last) counter.flush(process_, events);
    }
  }

  const TraceEventChoice& choice_;
  const Marked& marked_;
  std::size_t process_;
  std::size_t points_;
  std::vector<CounterTrack> counters_;
  std::size_t left_out_ = 0;
};

}  // namespace

std::vector<std::string> write_trace_events(const Report& report, std::span<const ListedTrace> traces,
                                            const TraceEventChoice& choice,
                                            const std::function<void(std::string_view)>& out) {
  const std::vector<TimeSpan> windows = windows_of(report, choice.whole_job);
  LeftOutTraces left_out(traces.size());
  const std::function<void(std::string_view)> give = [&](std::string_view piece) {
    left_out.give([&] { out(piece); });
  };
  Events events(report, give);
  std::size_t room_for_steps = kMostStepSlices;
  std::size_t steps_left_out = 0;
  std::size_t room_for_collectives = kMostCollectiveMarks;
  std::size_t collectives_left_out = 0;
  std::size_t slices_left_out = 0;
  std::size_t channels_left_out = 0;
  bool any_channel = false;
  std::size_t process = 0;
  for (const ListedTrace& listed : traces) {
    left_out.take([&] {
      TraceStream stream(listed.path);
      stream.read_tables();
      const std::string& node = stream.trace().header.node.empty() ? listed.node : stream.trace().header.node;
      left_out.need_first_of(node, listed.path);
      Marked marked = marked_on(node, report);
      events.name_process(++process, node);
      events.name_thread(process, kExportedThread, "exported");
      for (const TimeSpan& window : windows) {
        events.add_slice(process, kExportedThread, "exported", "exported interval", window, Json::object());
      }
      add_slices(events, process, kFirstFinding, "findings", std::move(marked.findings), slices_left_out);
      add_slices(events, process, kFirstEpisode, "intervals", std::move(marked.episodes), slices_left_out);
      add_steps(events, process, stream.trace(), windows, room_for_steps, steps_left_out);
      add_collectives(events, process, stream.trace(), windows, room_for_collectives, collectives_left_out);
      NodeExport counters(choice, marked, process, kMostPoints / traces.size());
      counters.add_counters(stream, windows, events);
      channels_left_out += counters.left_out();
      any_channel = any_channel || counters.chose_any();
    });
  }
  if (process == 0) throw left_out.error();
  events.finish();
  const auto tell = [&left_out](std::size_t count, std::string_view what) {
    if (count > 0) left_out.add(fmt::format("{} {}", count, what));
  };
  tell(steps_left_out, "training steps are left out: there is room for 200,000");
  tell(collectives_left_out, "collectives are left out: there is room for 200,000");
  tell(channels_left_out, "channels are left out: a node has room for 200; choose them with --metrics");
  tell(slices_left_out, "intervals are left out: too many overlap");
  if (!any_channel && !choice.metrics.empty()) left_out.add("no channel meets --metrics");
  return left_out.sentences();
}

}  // namespace reveal
