#include "postproc/diagnose/called_functions.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include "hdf5schema/basics/error.h"

namespace reveal {
namespace {

double sum_of(std::span<const double> series, Interval at) {
  double sum = 0;
  for (std::size_t t = at.begin; t < at.end; ++t) sum += std::isnan(series[t]) ? 0 : series[t];
  return sum;
}

}  // namespace

std::map<std::string, CallSums> calls_by_process(const RuleContext& context, Interval at,
                                                 const std::function<bool(const CallFacts&)>& counts) {
  if (context.channels("stack.time").empty()) throw Unavailable("not measured: stack.time (--stack)");
  std::map<std::string, CallSums> processes;
  const auto visit = [&](std::string_view metric, const auto& add) {
    for (const std::size_t channel : context.channels(metric)) {
      const std::string& instance = context.telemetry.channels[channel].instance;
      const std::size_t slash = instance.rfind('/');
      if (slash == std::string::npos || !counts(call_facts(std::string_view(instance).substr(slash + 1)))) continue;
      add(processes[instance.substr(0, slash)], channel, sum_of(context.telemetry.series(channel), at));
    }
  };
  visit("stack.calls", [](CallSums& sums, std::size_t channel, double sum) {
    sums.calls += sum;
    sums.channels.push_back(channel);
  });
  visit("stack.bytes", [&](CallSums& sums, std::size_t channel, double sum) {
    sums.bytes += sum;
    for (const std::size_t calls : sums.channels) {
      const bool same = context.telemetry.channels[calls].instance == context.telemetry.channels[channel].instance;
      if (same) sums.sized += sum_of(context.telemetry.series(calls), at);
    }
  });
  visit("stack.time", [](CallSums& sums, std::size_t channel, double sum) {
    sums.seconds += sum * 1e-9;
    if (sum * 1e-9 <= sums.dearest_seconds) return;
    sums.dearest = channel;
    sums.dearest_seconds = sum * 1e-9;
  });
  return processes;
}

double share_of_windows(const RuleContext& context, const CallSums& sums, Interval at) {
  const std::size_t window = context.steps(10);
  std::size_t with = 0;
  std::size_t all = 0;
  for (std::size_t begin = at.begin; begin + window <= at.end; begin += window, ++all) {
    with += std::any_of(sums.channels.begin(), sums.channels.end(), [&](std::size_t channel) {
      return sum_of(context.telemetry.series(channel), {begin, begin + window}) > 0;
    });
  }
  return all == 0 ? 0 : static_cast<double>(with) / static_cast<double>(all);
}

std::optional<double> counted_rate(const RuleContext& context, Interval at,
                                   const std::function<bool(const CallFacts&)>& counts) {
  constexpr double kLeastSeconds = 5;
  double rate = 0;
  bool known = false;
  for (const std::size_t channel : context.channels("stack.calls")) {
    const std::string_view instance = context.telemetry.channels[channel].instance;
    if (!counts(call_facts(instance.substr(instance.rfind('/') + 1)))) continue;
    const std::span<const double> series = context.telemetry.series(channel);
    const auto begin = series.begin() + static_cast<std::ptrdiff_t>(at.begin);
    const auto end = series.begin() + static_cast<std::ptrdiff_t>(at.end);
    const auto missing = std::count_if(begin, end, [](double value) { return std::isnan(value); });
    const double seconds = context.seconds(at.length() - static_cast<std::size_t>(missing));
    if (seconds < kLeastSeconds) continue;
    rate += sum_of(series, at) / seconds;
    known = true;
  }
  return known ? std::optional(rate) : std::nullopt;
}

Interval after_start(const RuleContext& context) {
  const Interval at{std::min(context.telemetry.samples, context.steps(context.threshold("min_after"))),
                    context.telemetry.samples};
  return context.seconds(at.length()) < context.threshold("min_seconds") ? Interval{} : at;
}

}  // namespace reveal
