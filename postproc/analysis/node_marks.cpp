#include "postproc/analysis/node_marks.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "hdf5schema/basics/clocks.h"
#include "postproc/telemetry/snapshot_facts.h"
#include "postproc/words/lists.h"

namespace reveal {
namespace {

using MarkKind = ReportMark::Kind;

constexpr std::size_t kMostOfKind = 12;  // marks of a node
constexpr std::size_t kMostOfNode = 30;
constexpr std::size_t kMostOfJob = 200;
constexpr std::size_t kMostTrainingSteps = 40;
constexpr std::size_t kLongestText = 120;
constexpr std::size_t kMostNamed = 20;  // nodes
constexpr std::int64_t kTogether = kSecond;
constexpr std::int64_t kFarthest = INT64_MAX / 4;  // sums of times stay numbers

struct MarkedEvent {
  std::string_view code;
  MarkKind kind;
  std::string_view words;  // before the event's own text
};
constexpr MarkedEvent kEvents[] = {
    {"xid", MarkKind::device, "NVIDIA driver error"},
    {"gpu_lost", MarkKind::device, "GPU lost:"},
    {"not_answering", MarkKind::service, "does not answer:"},
    {"answering", MarkKind::service, "answers again:"},
    {"clock_step", MarkKind::service, "set by"},
    {"cpus_online", MarkKind::configuration, "online:"},
    {"intervention_tried", MarkKind::configuration, "acted on: reveal"},
    {"intervention_kept", MarkKind::configuration, "kept:"},
    {"intervention_undone", MarkKind::configuration, "undone: reveal"},
    {"intervention_withdrawn", MarkKind::configuration, "undone: reveal"},
    {"step_begin", MarkKind::step, "begins"},
    {"step_end", MarkKind::step, "ends"},
};

ReportMark mark(MarkKind kind, const std::string& node, std::int64_t utc_ns, std::string text) {
  if (text.size() > kLongestText) text.resize(kLongestText);
  return {kind, node, {utc_ns, utc_ns}, std::move(text)};
}

std::int64_t utc_of(const NodeTrace& trace, std::int64_t time_ns) {
  return std::clamp(time_ns, -kFarthest, kFarthest) + std::clamp(trace.utc_minus_monotonic_ns, -kFarthest, kFarthest);
}

/// Earlier collectors took these, which have the environment of their rank, for processes of it.
constexpr std::string_view kOwnPrograms[] = {"reveal", "reveal-run", "reveal-collect"};

bool is_own(const Event& event) {
  const std::string_view text = event.text;
  return std::any_of(std::begin(kOwnPrograms), std::end(kOwnPrograms), [&](std::string_view program) {
    return text.ends_with(program) && text.size() > program.size() && text[text.size() - program.size() - 1] == ' ';
  });
}

/// "rank3 python3" of a process that began, "rank3" of one that ended; "" if it is no rank.
std::string rank_of(const Event& event) {
  return event.text.starts_with("rank") ? event.text.substr(0, event.text.find(' ')) : "";
}

void add_ranks(const NodeTrace& trace, std::vector<ReportMark>& marks) {
  std::set<std::string_view> own;  // "process 4711"
  for (const Event& event : trace.events) {
    if (event.code == "process_begin" && is_own(event)) own.insert(event.object);
  }
  for (const std::string_view code : {"process_begin", "process_end"}) {
    std::vector<std::string> together;
    std::int64_t since = 0;
    const auto flush = [&] {
      if (together.empty()) return;
      marks.push_back(mark(MarkKind::process, trace.telemetry.node, since,
                           fmt::format("{} {}", node_list(together), code == "process_begin" ? "began" : "ended")));
      together.clear();
    };
    for (const Event& event : trace.events) {
      const std::string rank = event.code == code && !own.contains(event.object) ? rank_of(event) : "";
      if (rank.empty()) continue;
      const std::int64_t at = utc_of(trace, event.time_ns);
      if (!together.empty() && at - since > kTogether) flush();
      if (together.empty()) since = at;
      together.push_back(rank);
    }
    flush();
  }
}

void add_events(const NodeTrace& trace, std::vector<ReportMark>& marks) {
  for (const Event& event : trace.events) {
    for (const MarkedEvent& known : kEvents) {
      if (event.code != known.code) continue;
      const std::string text =
          event.object + ' ' + std::string(known.words) + (event.text.empty() ? "" : " " + event.text);
      marks.push_back(mark(known.kind, trace.telemetry.node, utc_of(trace, event.time_ns), text));
    }
  }
}

/// A counter has no event: each sample with an increase is one.
void add_memory_kills(const Telemetry& telemetry, std::vector<ReportMark>& marks) {
  for (const std::string_view metric : {"group.killed_for_memory", "vmstat.oom_kill"}) {
    bool counted = false;
    for (std::size_t i = 0; i < telemetry.channels.size() && !counted; ++i) {
      if (telemetry.channels[i].metric != metric) continue;
      const auto series = telemetry.series(i);
      for (std::size_t t = 0; t < series.size(); ++t) {
        if (!(series[t] > 0)) continue;
        const auto at = static_cast<std::int64_t>(std::llround(static_cast<double>(t) * telemetry.step_seconds * 1e9));
        marks.push_back(mark(MarkKind::memory, telemetry.node, telemetry.begin_utc_ns + at,
                             "the kernel ended a process because memory was full"));
        counted = true;
      }
    }
    if (counted) return;  // a group's kills are among the node's
  }
}

/// The snapshot at the end has the changed settings only, without the time of the change.
void add_settings(const NodeTrace& trace, std::int64_t end_utc_ns, std::vector<ReportMark>& marks) {
  for (const auto& [key, value] : trace.end) {
    const auto before = fact_in(trace.begin, key);
    if (!before || *before == value || !is_setting(key)) continue;
    marks.push_back(mark(MarkKind::configuration, trace.telemetry.node, end_utc_ns,
                         fmt::format("{} was {} at the begin, {} at the end", key, *before, value)));
  }
}

/// Steps of one rank, evenly over the job.
void add_training(const StepHistory& steps, const std::string& node, std::vector<ReportMark>& marks) {
  if (steps.ranks.empty()) return;
  const StepTrend& rank = steps.ranks.front();
  constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;
  if (rank.point_steps < 1 || rank.first_point < 0 || rank.point_steps > kMostSteps ||
      rank.first_point > kMostSteps / rank.point_steps) {
    return;
  }
  const std::vector<double> begins = begins_of(rank);
  const std::size_t every = std::max<std::size_t>(1, (begins.size() + kMostTrainingSteps - 1) / kMostTrainingSteps);
  for (std::size_t i = 0; i < begins.size(); i += every) {
    if (!std::isfinite(begins[i]) || std::abs(begins[i]) > 1e10) continue;
    const std::int64_t step = (rank.first_point + static_cast<std::int64_t>(i)) * rank.point_steps + 1;
    marks.push_back(mark(MarkKind::training, node, std::llround(begins[i] * 1e9), fmt::format("step {}", step)));
  }
}

bool earlier(const ReportMark& a, const ReportMark& b) {
  return a.span.begin_utc_ns < b.span.begin_utc_ns;
}

/// Keeps kinds that come first in the enumeration longest.
void keep_most(std::vector<ReportMark>& marks, std::size_t most) {
  std::stable_sort(marks.begin(), marks.end(),
                   [](const ReportMark& a, const ReportMark& b) { return a.kind < b.kind; });
  if (marks.size() > most) marks.resize(most);
  std::stable_sort(marks.begin(), marks.end(), earlier);
}

void keep_first_of_kinds(std::vector<ReportMark>& marks) {
  std::map<MarkKind, std::size_t> kept;
  std::stable_sort(marks.begin(), marks.end(), earlier);
  std::erase_if(marks, [&](const ReportMark& one) { return ++kept[one.kind] > kMostOfKind; });
}

}  // namespace

std::vector<ReportMark> node_marks(const NodeTrace& trace, const Telemetry& telemetry) {
  std::vector<ReportMark> marks;
  add_events(trace, marks);
  add_memory_kills(telemetry, marks);
  const auto length = static_cast<double>(telemetry.samples) * telemetry.step_seconds * 1e9;
  add_settings(trace, telemetry.begin_utc_ns + std::llround(length), marks);
  add_ranks(trace, marks);
  keep_first_of_kinds(marks);
  if (marks.size() > kMostOfNode) keep_most(marks, kMostOfNode);
  return marks;
}

std::vector<ReportMark> job_marks(const std::vector<NodeSummary>& summaries) {
  struct Same {
    ReportMark mark;
    std::vector<std::string> nodes;
  };
  std::map<std::pair<MarkKind, std::string>, std::vector<Same>> all;
  std::vector<ReportMark> marks;
  for (const NodeSummary& summary : summaries) {
    if (marks.empty()) add_training(summary.steps, summary.node, marks);  // its ranks take the same steps everywhere
    for (const ReportMark& one : summary.part.marks) {
      auto& known = all[{one.kind, one.text}];
      const auto same = std::find_if(known.begin(), known.end(), [&one](const Same& other) {
        return std::abs(other.mark.span.begin_utc_ns - one.span.begin_utc_ns) <= kTogether;
      });
      if (same != known.end()) {
        same->nodes.push_back(summary.node);
      } else if (known.size() < kMostOfJob) {
        known.push_back({one, {summary.node}});
      }
    }
  }
  for (auto& [what, known] : all) {
    for (Same& same : known) {
      same.mark.node = same.nodes.size() == 1 ? same.nodes.front() : "";
      if (same.nodes.size() > 1) same.mark.text += " on " + node_list(same.nodes, kMostNamed);
      marks.push_back(std::move(same.mark));
    }
  }
  keep_most(marks, kMostOfJob);
  return marks;
}

}  // namespace reveal
