#include "postproc/diagnose/signals.h"

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/network_interface.h"
#include "postproc/telemetry/snapshot_facts.h"

namespace reveal {
namespace {

constexpr double kWindowSeconds = 5;

struct PressureMetrics {
  std::string_view of_job, of_node;
};
// In the order of the enumerators.
constexpr PressureMetrics kPressures[] = {{"cgroup.io_some", "pressure.io_some"},
                                          {"cgroup.io_full", "pressure.io_full"},
                                          {"cgroup.memory_some", "pressure.memory_some"}};

/// Mean over the run of a counter of time, in s/s; NaN where it was not measured.
double mean_time_of_process(const RuleContext& context, std::string_view metric, const std::string& process) {
  const auto channels = context.channels(metric, process);
  if (channels.empty()) return kNaN;
  return mean_inside(channel_rate(context, channels.front(), 1e-9, "s/s").values, {0, context.telemetry.samples});
}

/// An episode is the same thing as a rule's interval when they share this much of their union.
constexpr double kSameThing = 0.25;
constexpr double kCriticalPercent = 25;

}  // namespace

std::optional<MetricSeries> rate(const RuleContext& context, std::string_view metric, double scale,
                                 std::string_view unit, std::string_view role) {
  auto sum = context.total_if_measured(metric, role);
  if (!sum) return std::nullopt;
  for (double& value : *sum) value *= scale / context.telemetry.step_seconds;
  return MetricSeries{std::string(metric), std::string(unit), *std::move(sum)};
}

MetricSeries channel_rate(const RuleContext& context, std::size_t channel, double scale, std::string_view unit) {
  const auto series = context.telemetry.series(channel);
  MetricSeries signal{context.telemetry.channels[channel].metric, std::string(unit),
                      std::vector<double>(series.begin(), series.end())};
  for (double& value : signal.values) value *= scale / context.telemetry.step_seconds;
  return signal;
}

std::vector<std::size_t> channels_that_lead_out(const RuleContext& context, std::string_view metric) {
  const auto instance = [&](std::size_t channel) { return context.telemetry.channels[channel].instance; };
  // The facts are those of the node's own interfaces; in another namespace, one of the same name is another one.
  const auto is_elsewhere = [&](std::size_t channel) { return instance(channel).find('/') != std::string::npos; };
  const auto is_device = [&](std::size_t channel) {
    return !is_elsewhere(channel) &&
           !context.snapshot_value(interface_fact_key(instance(channel), "numa_node")).empty();
  };
  std::vector<std::size_t> channels = context.channels(metric);
  const auto is_counted_below = [&](std::size_t channel) {
    if (is_elsewhere(channel)) return false;
    const std::string cards = context.snapshot_value(interface_fact_key(instance(channel), "cards"));
    return is_counted_at_cards(cards, [&](std::string_view card) { return !context.channels(metric, card).empty(); });
  };
  std::erase_if(channels, [&](std::size_t channel) {
    return interface_name(instance(channel)) == "lo" || is_counted_below(channel);
  });
  if (std::any_of(channels.begin(), channels.end(), is_device)) {
    std::erase_if(channels, [&](std::size_t channel) { return !is_elsewhere(channel) && !is_device(channel); });
  }
  return channels;
}

std::optional<MetricSeries> traffic_of_interfaces(const RuleContext& context, std::string_view metric) {
  std::optional<MetricSeries> sum;
  for (const std::size_t channel : channels_that_lead_out(context, metric)) {
    const MetricSeries one = channel_rate(context, channel, 1, "bytes/s");
    for (std::size_t t = 0; t < one.values.size(); ++t) {
      if (std::isnan(one.values[t])) continue;
      if (!sum) sum = MetricSeries{one.metric, one.unit, std::vector<double>(one.values.size(), kNaN)};
      double& value = sum->values[t];
      value = std::isnan(value) ? one.values[t] : value + one.values[t];
    }
  }
  return sum;
}

std::optional<MetricSeries> level(const RuleContext& context, std::string_view metric, std::string_view unit) {
  auto sum = context.total_if_measured(metric);
  if (!sum) return std::nullopt;
  return MetricSeries{std::string(metric), std::string(unit), *std::move(sum)};
}

bool is_one_cpu(std::string_view instance) noexcept {
  constexpr std::string_view kCpu = "cpu";
  return instance.starts_with(kCpu) && instance.size() > kCpu.size();
}

bool measures_every_process(const RuleContext& context, Interval at) {
  const auto processes = level(context, "job.processes", "processes");
  return !processes || !(mean_inside(processes->values, at) > kMeasuredProcesses);
}

bool group_counts_cached_writes(const RuleContext& context) {
  return !context.values().contains("cgroup_v1");
}

MetricSeries needed(std::optional<MetricSeries> signal, std::string_view what) {
  if (!signal) throw Unavailable("not measured: " + std::string(what));
  return *std::move(signal);
}

std::optional<MetricSeries> cpu_wait(const RuleContext& context) {
  if (auto own = rate(context, "job.wait_time", 1e-9, "s/s")) return own;
  if (auto slots = rate(context, "process.wait_time", 1e-9, "s/s", "rank")) return slots;
  return rate(context, "pressure.cpu_some", 1e-9, "s/s");
}

std::optional<MetricSeries> pressure_wait(const RuleContext& context, Pressure kind) {
  const PressureMetrics& metrics = kPressures[static_cast<std::size_t>(kind)];
  if (auto own = rate(context, metrics.of_job, 1e-9, "s/s")) return own;
  return rate(context, metrics.of_node, 1e-9, "s/s");
}

std::optional<double> estimated_wait(const RuleContext& context, const std::string& process) {
  constexpr double kNearlyAll = 0.9;
  constexpr double kItsPart = 0.5;
  const auto counts = context.channels("process.threads", process);
  const double used = mean_time_of_process(context, "process.cpu_time", process);
  const double ran = mean_time_of_process(context, "process.run_time", process);
  if (counts.empty() || !(ran > 0 && ran < kNearlyAll * used)) return std::nullopt;
  const double threads = mean_inside(context.telemetry.series(counts.front()), {0, context.telemetry.samples});
  const double waited = mean_time_of_process(context, "process.wait_time", process);
  if (std::isnan(waited) || !(ran >= kItsPart * used / threads)) return std::nullopt;
  return std::min(waited / ran * used, std::max(0.0, threads - used));
}

std::vector<double> over_seconds(const RuleContext& context, std::span<const double> series) {
  const std::size_t second = context.steps(1);
  std::vector<double> smooth(series.size());
  for (std::size_t t = 0; t < series.size(); ++t) {
    smooth[t] = mean_inside(series, {t - std::min(t, second / 2), t + second / 2 + 1});
  }
  return smooth;
}

std::optional<InsideOutside> inside_outside(std::span<const double> series, Interval at,
                                            std::span<const Interval> excluded, std::size_t window) {
  std::vector<Interval> away(excluded.begin(), excluded.end());
  away.push_back(at);
  const InsideOutside result{mean_inside(series, at), mean_outside(series, away), 0};
  if (std::isnan(result.inside) || std::isnan(result.outside)) return std::nullopt;
  const auto means = reference_means(series, away, std::min(at.length(), window));
  if (means.size() < 3) return result;
  double mean = 0;
  double squares = 0;
  for (const double value : means) mean += value / static_cast<double>(means.size());
  for (const double value : means) squares += (value - mean) * (value - mean);
  const double spread = std::sqrt(squares / static_cast<double>(means.size() - 1));
  InsideOutside scored = result;
  // A hundredth of the level itself, so that a constant outside does not score without bound.
  scored.score = result.excess() / std::max({spread, std::abs(result.outside) / 100, 1e-9});
  return scored;
}

std::optional<InsideOutside> inside_outside(const RuleContext& context, const MetricSeries& signal, Interval at,
                                            std::span<const Interval> excluded) {
  return inside_outside(signal.values, at, excluded, context.steps(kWindowSeconds));
}

std::optional<InsideOutside> inside_outside(const RuleContext& context, const std::optional<MetricSeries>& signal,
                                            Interval at, std::span<const Interval> excluded) {
  return signal ? inside_outside(context, *signal, at, excluded) : std::nullopt;
}

Evidence evidence_of(const RuleContext& context, const MetricSeries& signal, const InsideOutside& levels, Interval at) {
  Evidence evidence;
  evidence.metric = signal.metric;
  evidence.node = context.telemetry.node;
  evidence.feature = "mean";
  evidence.observed = levels.inside;
  evidence.expected = levels.outside;
  evidence.unit = signal.unit;
  evidence.span = context.span(at.begin, at.end);
  if (levels.score != 0) evidence.score = shown_score(levels.score);
  return evidence;
}

Evidence fact(const RuleContext& context, std::string metric, std::string instance, std::string feature,
              double observed, std::optional<double> expected, std::string unit) {
  return {.metric = std::move(metric),
          .instance = std::move(instance),
          .node = context.telemetry.node,
          .feature = std::move(feature),
          .observed = observed,
          .expected = expected,
          .unit = std::move(unit),
          .span = context.span(0, context.telemetry.samples)};
}

Evidence snapshot_fact(const RuleContext& context, std::string metric, std::string instance, double observed,
                       std::optional<double> expected, std::string unit) {
  Evidence evidence =
      fact(context, std::move(metric), std::move(instance), "value", observed, expected, std::move(unit));
  evidence.detectors = {Method::snapshot};
  return evidence;
}

std::optional<Confirmation> confirmed_by(const Detection& detection, Interval at) {
  for (const Episode& episode : detection.episodes) {
    if (episode.tier == Tier::none || episode.end <= episode.begin) continue;
    const Interval theirs{episode.begin, episode.end};
    const double both = static_cast<double>(overlap(at, theirs));
    const double either = static_cast<double>(at.length() + theirs.length()) - both;
    if (both >= kSameThing * either) return Confirmation{episode.methods, episode.score};
  }
  return std::nullopt;
}

double job_seconds(const RuleContext& context) {
  return context.seconds(context.telemetry.samples);
}

std::vector<Excursion> or_whole_run(const RuleContext& context, std::span<const double> series, double least,
                                    std::vector<Excursion> found) {
  constexpr std::size_t kParts = 4;
  const Interval whole{0, context.telemetry.samples};
  bool always = found.empty() && job_seconds(context) >= context.threshold("min_seconds");
  for (std::size_t part = 0; part < kParts && always; ++part) {
    always = mean_inside(series, {part * whole.end / kParts, (part + 1) * whole.end / kParts}) >= least;
  }
  if (always) found.push_back({.at = whole, .inside = mean_inside(series, whole), .outside = kNaN, .beyond = true});
  return found;
}

Severity severity_of_loss(double seconds, double percent, double min_seconds, double min_percent) {
  if (percent >= kCriticalPercent && seconds >= min_seconds) return Severity::critical;
  if (seconds >= min_seconds && percent >= min_percent) return Severity::warning;
  return Severity::notice;
}

JobValues bad_for_jobs(const RuleContext& context, JobValues more) {
  if (context.values().contains("job")) more["avoid_node"] = "yes";
  return more;
}

}  // namespace reveal
