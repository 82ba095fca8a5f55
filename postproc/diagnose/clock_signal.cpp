#include "postproc/diagnose/clock_signal.h"

#include "hdf5schema/basics/not_measured.h"

namespace reveal {
namespace {

/// Cycles that ran against cycles at the nominal clock: Bzy_MHz in turbostat.
std::optional<MetricSeries> counted_clock(const RuleContext& context) {
  const auto ran = context.total_if_measured("platform.aperf");
  const auto nominal = context.total_if_measured("platform.mperf");
  const auto all = context.total_if_measured("platform.tsc");
  const auto cpus = static_cast<double>(context.channels("platform.tsc").size());
  if (!ran || !nominal || !all) return std::nullopt;
  MetricSeries clock{"platform.busy_frequency", "Hz", *ran};
  for (std::size_t t = 0; t < clock.values.size(); ++t) {
    const double rate = (*all)[t] / cpus / context.telemetry.step_seconds;
    clock.values[t] = (*nominal)[t] > 0 ? (*ran)[t] / (*nominal)[t] * rate : kNaN;
  }
  return clock;
}

bool may_use(const RuleContext& context, const std::string& cpu) {
  const auto allowed = context.channels("job.cpu_allowed", cpu);
  return cpu.empty() || allowed.empty() ||
         mean_inside(context.telemetry.series(allowed.front()), {0, context.telemetry.samples}) > 0.5;
}

/// Mean over the cpus of the job, as the driver reports it: a hint, where nothing is counted.
std::optional<MetricSeries> reported_clock(const RuleContext& context) {
  MetricSeries clock{"cpu.frequency", "Hz", std::vector<double>(context.telemetry.samples, 0.0)};
  double cpus = 0;
  for (const std::size_t channel : context.channels("cpu.frequency")) {
    if (!may_use(context, context.telemetry.channels[channel].instance)) continue;
    const auto series = context.telemetry.series(channel);
    for (std::size_t t = 0; t < series.size(); ++t) clock.values[t] += series[t];
    ++cpus;
  }
  if (cpus == 0) return std::nullopt;
  for (double& value : clock.values) value /= cpus;
  return clock;
}

}  // namespace

std::string why_no_heat(const RuleContext& context) {
  const bool counted = !context.channels("throttle.core_time").empty() || !context.channels("cooling.active").empty();
  return counted ? "heat: the kernel counts it separately" : "heat cannot be ruled out: it was not measured";
}

std::optional<MetricSeries> clock_of(const RuleContext& context) {
  auto counted = counted_clock(context);
  return counted ? std::move(counted) : reported_clock(context);
}

}  // namespace reveal
