#include "postproc/diagnose/memory_signals.h"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <cmath>

#include "hdf5schema/basics/text.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

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

std::optional<MetricSeries> stall_ratio(const RuleContext& context) {
  if (auto of_memory = level(context, "pmu.l3_stall_ratio", "ratio")) return of_memory;
  return level(context, "pmu.stall_ratio", "ratio");
}

std::optional<MetricSeries> remote_share(const RuleContext& context) {
  return level(context, "pmu.remote_share", "ratio");
}

std::vector<MemoryPicture> memory_picture(const RuleContext& context, Interval at) {
  std::vector<MemoryPicture> picture;
  for (std::optional<MetricSeries>& signal :
       std::array{level(context, "pmu.ipc", "ratio"), stall_ratio(context), remote_share(context),
                  level(context, "platform.memory_bandwidth", "bytes/s")}) {
    if (!signal) continue;
    MemoryPicture each{*std::move(signal), 0, std::nullopt};
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

std::string slurm_memory(double bytes) {
  constexpr double kMiB = 1024.0 * 1024;
  constexpr double kGiB = 1024 * kMiB;
  const bool whole = bytes >= kGiB && std::fmod(bytes, kGiB) == 0;
  return whole ? fmt::format("{:.0f}G", bytes / kGiB) : fmt::format("{:.0f}M", bytes / kMiB);
}

std::optional<MemoryLimit> limit_met(const RuleContext& context, Interval at) {
  constexpr double kAtIt = 0.9;
  std::optional<MemoryLimit> tightest;
  for (const std::size_t channel : context.channels("group.memory_limit")) {
    const std::string& group = context.telemetry.channels[channel].instance;
    const double limit = mean_inside(context.telemetry.series(channel), at);
    const auto used = context.channels("group.memory", group);
    if (used.empty() || !(mean_inside(context.telemetry.series(used.front()), at) >= kAtIt * limit)) continue;
    if (!tightest || limit < tightest->bytes) tightest = MemoryLimit{group, limit};
  }
  return tightest;
}

bool fits_on_node(const RuleContext& context, double bytes) {
  const auto of_node = parse_int(context.snapshot_value("memory.total"));
  return !of_node || bytes <= static_cast<double>(*of_node);
}

std::span<const double> level_of_job(const RuleContext& context, std::string_view metric) {
  const auto channels = context.channels(metric, "job");
  if (channels.empty() || context.telemetry.channels[channels.front()].role == "node") return {};
  return context.telemetry.series(channels.front());
}

}  // namespace reveal
