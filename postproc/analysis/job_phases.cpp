#include "postproc/analysis/job_phases.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

#include "hdf5schema/basics/not_measured.h"
#include "postproc/analysis/job_totals.h"
#include "postproc/diagnose/gpu_signals.h"
#include "postproc/numerics/percentile.h"
#include "postproc/numerics/present_values.h"
#include "postproc/telemetry/coarser.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

using PhaseKind = JobPhase::Kind;

constexpr std::size_t kMostPhases = 24;
constexpr double kShortestRecording = 10;
constexpr double kSendingCpus = 0.01;    // with less, the traffic is that of others
constexpr double kLeastCpus = 0.1;       // with less, a job waits
constexpr double kUsualPercentile = 95;  // over the seconds in which it works
constexpr double kBusyShare = 0.5;       // share of the cpus that a busy job uses
constexpr double kLeastMoved = 1e6;      // bytes/s
constexpr double kMovedPerCpu = 100e6;   // bytes in a second of cpu time; code that computes with data moves less
constexpr double kOverFiles = 2;         // network traffic over that of files
constexpr std::size_t kMostGroups = 4;   // with nodes, in a report
constexpr std::size_t kMostCompared = 16;
constexpr double kSameSeconds = 2;                     // ends of phases on two nodes
constexpr std::int64_t kFarthestStep = INT64_MAX / 4;  // sums of times stay numbers

/// A value for each second; empty or NaN where it was not measured.
using Course = std::vector<double>;

struct Activity {
  Course cpus, gpu, read, written, network;
  double busy_cpus = kNaN;
};

/// The sum of counters, per second. Processes come and go: those that are there count.
Course rate_of(const Telemetry& telemetry, std::span<const std::size_t> channels, std::size_t factor) {
  if (channels.empty()) return {};
  const double seconds = telemetry.step_seconds * static_cast<double>(factor);
  Course sum(telemetry.samples / factor, kNaN);
  Course one(sum.size());
  for (const std::size_t channel : channels) {
    lengthen_steps(telemetry.series(channel), factor, telemetry.channels[channel].kind, one);
    for (std::size_t t = 0; t < sum.size(); ++t) {
      if (!std::isnan(one[t])) sum[t] = (std::isnan(sum[t]) ? 0 : sum[t]) + one[t] / seconds;
    }
  }
  return sum;
}

/// Mean use of the job's GPUs that work at all.
Course gpu_use(const NodeTrace& trace, const Telemetry& telemetry, std::size_t factor) {
  Course sum;
  double count = 0;
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    const Channel& channel = telemetry.channels[i];
    if (channel.metric != "gpu.utilization" || !is_gpu_of_job(trace.begin, trace.end, channel.instance)) continue;
    Course use(telemetry.samples / factor);
    lengthen_steps(telemetry.series(i), factor, channel.kind, use);
    if (!(present_values(use).high >= kGpuWorks)) continue;
    sum.resize(use.size(), 0);
    for (std::size_t t = 0; t < use.size(); ++t) sum[t] += use[t];
    count += 1;
  }
  for (double& value : sum) value /= count;
  return sum;
}

double busy_level(const Course& cpus) {
  Course working;
  std::copy_if(cpus.begin(), cpus.end(), std::back_inserter(working), [](double used) { return used >= kLeastCpus; });
  return working.empty() ? kNaN : lower_percentile(working, kUsualPercentile);
}

Activity measured_activity(const NodeTrace& trace, const Telemetry& telemetry, const JobChannels& channels,
                           std::size_t factor) {
  Activity activity{.cpus = rate_of(telemetry, channels.cpu_time, factor),
                    .gpu = gpu_use(trace, telemetry, factor),
                    .read = rate_of(telemetry, channels.read_bytes, factor),
                    .written = rate_of(telemetry, channels.written_bytes, factor),
                    .network = rate_of(telemetry, channels.network_bytes, factor)};
  for (double& cpus : activity.cpus) cpus *= 1e-9;
  activity.busy_cpus = busy_level(activity.cpus);
  const Course rdma = rate_of(telemetry, channels.rdma_bytes, factor);
  activity.network.resize(std::max(activity.network.size(), rdma.size()), kNaN);
  for (std::size_t t = 0; t < rdma.size(); ++t) activity.network[t] = std::fmax(activity.network[t], rdma[t]);
  return activity;
}

/// NaN without a value in it.
double mean_over(const Course& course, std::size_t begin, std::size_t end) {
  return course.empty() ? kNaN : mean_of(std::span(course).subspan(begin, end - begin));
}

PhaseKind kind_of_part(const Activity& activity, std::size_t begin, std::size_t end) {
  const PresentValues used = present_values(std::span(activity.cpus).subspan(begin, end - begin));
  if (2 * used.present < end - begin) return PhaseKind::not_measured;
  if (mean_over(activity.gpu, begin, end) >= kGpuWorks) return PhaseKind::computing;
  const double cpus = used.mean();
  const double read = mean_over(activity.read, begin, end);
  const double written = mean_over(activity.written, begin, end);
  const double network = mean_over(activity.network, begin, end);
  const auto moves = [cpus](double bytes) { return bytes >= std::max(kLeastMoved, kMovedPerCpu * cpus); };
  const double files = std::fmax(read, written);
  if (cpus >= kSendingCpus && moves(network) && !(network < kOverFiles * files)) return PhaseKind::communicating;
  if (moves(files)) return read == files ? PhaseKind::reading : PhaseKind::writing;
  if (cpus >= kBusyShare * activity.busy_cpus) return PhaseKind::computing;
  return cpus >= kLeastCpus ? PhaseKind::few_cpus : PhaseKind::waiting;
}

/// Cuts the job into parts of so many values each.
std::vector<JobPhase> phases_of(const Activity& activity, std::size_t length, std::int64_t begin_utc_ns,
                                double seconds) {
  const auto at = [&](std::size_t value) {
    return begin_utc_ns + std::llround(static_cast<double>(value) * seconds * 1e9);
  };
  const std::size_t values = activity.cpus.size();
  std::vector<JobPhase> phases;
  for (std::size_t begin = 0; begin < values; begin += length) {
    const std::size_t end = std::min(values, begin + length);
    const PhaseKind kind = kind_of_part(activity, begin, end);
    if (phases.empty() || phases.back().kind != kind) phases.push_back({kind, {at(begin), at(begin)}});
    phases.back().span.end_utc_ns = at(end);
  }
  return phases;
}

/// "not measured: reading, writing (the probe failed)"
std::string not_measured_note(const JobTotals& used) {
  constexpr std::pair<const char*, const char*> kActivities[] = {
      {"read_bytes", "reading"}, {"written_bytes", "writing"}, {"network_bytes", "communicating"}};
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const auto& [key, word] : kActivities) {
    for (const TotalsNumber& total : kTotalsNumbers) {
      if (std::string_view(total.key) != key || (used.*total.value)) continue;
      const auto note = used.notes.find(key);
      by_reason[note == used.notes.end() ? "" : note->second].emplace_back(word);
    }
  }
  std::vector<std::string> parts;
  for (const auto& [reason, words] : by_reason) {
    const bool said = reason.empty() || reason == kNotMeasured;
    parts.push_back(listed(words) + (said ? "" : " (" + reason + ")"));
  }
  return parts.empty() ? "" : "not measured: " + joined(parts, "; ");
}

void put_training_steps(const NodeTrace& trace, TimeSpan job, NodePhases& phases) {
  const auto within = [](std::int64_t time) { return std::clamp(time, -kFarthestStep, kFarthestStep); };
  const std::int64_t offset = within(trace.utc_minus_monotonic_ns);
  std::int64_t first = INT64_MAX;
  std::int64_t last = INT64_MIN;
  for (const TrainingStep& step : trace.steps) {
    const std::int64_t begin = within(step.begin_ns) + offset;
    first = std::min(first, begin);
    last = std::max(last, begin + within(std::max<std::int64_t>(step.duration_ns, 0)));
  }
  if (trace.steps.empty()) return;
  phases.first_step_utc_ns = std::clamp(first, job.begin_utc_ns, job.end_utc_ns);
  phases.last_step_utc_ns = std::clamp(last, job.begin_utc_ns, job.end_utc_ns);
}

bool have_same_phases(const NodePhases& one, const NodePhases& other) {
  if (one.note != other.note) return false;
  const double reach = 1e9 * std::max({one.resolution_seconds, other.resolution_seconds, kSameSeconds});
  const auto near = [reach](std::int64_t a, std::int64_t b) {
    return std::abs(static_cast<double>(a) - static_cast<double>(b)) <= reach;
  };
  return std::equal(one.phases.begin(), one.phases.end(), other.phases.begin(), other.phases.end(),
                    [&near](const JobPhase& a, const JobPhase& b) {
                      return a.kind == b.kind && near(a.span.begin_utc_ns, b.span.begin_utc_ns) &&
                             near(a.span.end_utc_ns, b.span.end_utc_ns);
                    });
}

}  // namespace

NodePhases node_phases(const NodeTrace& trace, const Telemetry& telemetry, const TraceTotals& totals, bool shared,
                       const JobTotals& used) {
  NodePhases phases{.nodes = {telemetry.node}};
  const JobChannels channels = job_channels(trace, telemetry.channels, totals, shared);
  if (channels.cpu_time.empty()) {
    const auto why = used.notes.find("cpu_seconds");
    const bool known = why != used.notes.end() && why->second != kNotMeasured;
    phases.note = "the job's cpu time was not measured" + (known ? ": " + why->second : "");
    return phases;
  }
  const auto factor = static_cast<std::size_t>(std::max(1.0, std::round(1 / telemetry.step_seconds)));
  const double seconds = telemetry.step_seconds * static_cast<double>(factor);
  const Activity activity = measured_activity(trace, telemetry, channels, factor);
  if (static_cast<double>(activity.cpus.size()) * seconds < kShortestRecording) {
    phases.note = fmt::format("the recording is shorter than {:.0f} s", kShortestRecording);
    return phases;
  }
  std::size_t length = 1;
  do {
    phases.phases = phases_of(activity, length, telemetry.begin_utc_ns, seconds);
    phases.resolution_seconds = seconds * static_cast<double>(length);
    length *= 2;
  } while (phases.phases.size() > kMostPhases);
  put_training_steps(trace, {phases.phases.front().span.begin_utc_ns, phases.phases.back().span.end_utc_ns}, phases);
  phases.note = not_measured_note(used);
  return phases;
}

std::vector<NodePhases> job_phases(const std::vector<NodeSummary>& summaries, std::map<std::string, double>& omitted) {
  std::vector<NodePhases> groups;
  double left_out = 0;
  for (const NodeSummary& summary : summaries) {
    for (const NodePhases& one : summary.part.phases) {
      const auto same = std::find_if(groups.begin(), groups.end(),
                                     [&one](const auto& group) { return have_same_phases(one, group); });
      if (same != groups.end()) {
        same->nodes.push_back(summary.node);
      } else if (groups.size() < kMostCompared) {
        groups.push_back(one);
      } else {
        left_out += 1;
      }
    }
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const NodePhases& a, const NodePhases& b) { return a.nodes.size() > b.nodes.size(); });
  for (std::size_t i = kMostGroups; i < groups.size(); ++i) left_out += static_cast<double>(groups[i].nodes.size());
  if (groups.size() > kMostGroups) groups.resize(kMostGroups);
  if (left_out > 0) omitted["nodes with other phases"] += left_out;
  return groups;
}

}  // namespace reveal
