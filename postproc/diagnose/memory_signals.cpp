#include "postproc/diagnose/memory_signals.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/not_measured.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

std::optional<MetricSeries> quotient(const RuleContext& context, std::string_view name, std::string_view part,
                                     std::string_view whole) {
  const auto above = context.total_if_measured(part);
  const auto below = context.total_if_measured(whole);
  if (!above || !below) return std::nullopt;
  MetricSeries signal{std::string(name), "ratio", *above};
  bool any = false;
  for (std::size_t t = 0; t < signal.values.size(); ++t) {
    // Nothing was done, so nothing can be said of how it was done.
    signal.values[t] = (*below)[t] > 0 ? (*above)[t] / (*below)[t] : kNaN;
    any = any || !std::isnan(signal.values[t]);
  }
  return any ? std::optional(std::move(signal)) : std::nullopt;
}

bool add(const RuleContext& context, std::string_view metric, std::string_view package, std::vector<double>& sum) {
  bool any = false;
  for (const std::size_t channel : context.channels(metric, package)) {
    const MetricSeries each = channel_rate(context, channel, 1, "bytes/s");
    for (std::size_t t = 0; t < sum.size(); ++t) {
      if (std::isnan(each.values[t])) continue;
      sum[t] = (std::isnan(sum[t]) ? 0 : sum[t]) + each.values[t];
      any = true;
    }
  }
  return any;
}

std::string words_of(const MemoryPicture& each) {
  const bool bytes = each.signal.unit == "bytes/s";
  const bool ipc = each.signal.metric == "pmu.ipc";
  const auto shown = [&](double value) {
    if (bytes) return quantity(value, "bytes/s");
    return ipc ? number(value) : fmt::format("{:.0f} %", 100 * value);
  };
  const std::string value = shown(each.inside);
  const std::string before = each.outside ? fmt::format(" (otherwise {})", shown(*each.outside)) : "";
  if (ipc) return fmt::format("{} instructions per cycle{}", value, before);
  if (bytes) return fmt::format("memory traffic {}{}", value, before);
  if (each.signal.metric == "pmu.remote_share") {
    return fmt::format("{}{} of the accesses beyond the last cache went to another socket", value, before);
  }
  return fmt::format("{}{} of the cycles waited{}", value, before,
                     each.signal.metric == "pmu.l3_stall_ratio" ? " for memory" : "");
}

}  // namespace

std::optional<MetricSeries> instructions_per_cycle(const RuleContext& context) {
  return quotient(context, "pmu.ipc", "pmu.instructions", "pmu.cycles");
}

std::optional<MetricSeries> stall_ratio(const RuleContext& context) {
  if (auto of_memory = quotient(context, "pmu.l3_stall_ratio", "pmu.l3_stalls", "pmu.cycles")) return of_memory;
  return quotient(context, "pmu.stall_ratio", "pmu.backend_stalls", "pmu.cycles");
}

std::optional<MetricSeries> remote_share(const RuleContext& context) {
  return quotient(context, "pmu.remote_share", "pmu.remote_dram", "pmu.llc_misses");
}

std::optional<MetricSeries> memory_bandwidth(const RuleContext& context, std::string_view package) {
  MetricSeries signal{"platform.memory_bandwidth", "bytes/s", std::vector<double>(context.telemetry.samples, kNaN)};
  bool any = add(context, "platform.memory_read", package, signal.values);
  any = add(context, "platform.memory_written", package, signal.values) && any;
  if (!any) {  // reads and writes are not told apart
    std::fill(signal.values.begin(), signal.values.end(), kNaN);
    any = add(context, "platform.memory_traffic", package, signal.values);
  }
  return any ? std::optional(std::move(signal)) : std::nullopt;
}

std::vector<MetricSeries> memory_signals(const RuleContext& context) {
  std::vector<MetricSeries> signals;
  for (auto* measured : {instructions_per_cycle, stall_ratio, remote_share}) {
    if (auto signal = measured(context)) signals.push_back(*std::move(signal));
  }
  if (auto signal = memory_bandwidth(context)) signals.push_back(*std::move(signal));
  return signals;
}

std::vector<MemoryPicture> memory_picture(const RuleContext& context, Interval at) {
  std::vector<MemoryPicture> picture;
  for (MetricSeries& signal : memory_signals(context)) {
    MemoryPicture each{std::move(signal), 0, std::nullopt};
    each.inside = mean_inside(each.signal.values, at);
    if (std::isnan(each.inside)) continue;
    const Interval excluded[] = {at};
    const double outside = mean_outside(each.signal.values, excluded);
    if (!std::isnan(outside)) each.outside = outside;
    picture.push_back(std::move(each));
  }
  return picture;
}

std::string in_words(std::span<const MemoryPicture> picture) {
  std::vector<std::string> words;
  for (const MemoryPicture& each : picture) words.push_back(words_of(each));
  return listed(words);
}

Evidence evidence_of(const RuleContext& context, const MemoryPicture& picture, Interval at) {
  return {.metric = picture.signal.metric,
          .instance = "",
          .node = context.telemetry.node,
          .feature = "mean",
          .observed = picture.inside,
          .expected = picture.outside,
          .unit = picture.signal.unit,
          .span = context.span(at.begin, at.end),
          .detectors = {},
          .score = std::nullopt};
}

}  // namespace reveal
