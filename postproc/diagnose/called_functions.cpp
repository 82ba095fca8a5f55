#include "postproc/diagnose/called_functions.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

double sum_of(std::span<const double> series, Interval at) {
  double sum = 0;
  for (std::size_t t = at.begin; t < at.end; ++t) sum += std::isnan(series[t]) ? 0 : series[t];
  return sum;
}

double sum_of(std::span<const double> series, Interval at, const std::vector<bool>& measured) {
  double sum = 0;
  for (std::size_t t = at.begin; t < at.end; ++t) {
    if (measured[t - at.begin] && !std::isnan(series[t])) sum += series[t];
  }
  return sum;
}

/// A function has no values before its first call; without one after that, it was not measured.
void leave_out_gaps(std::span<const double> series, Interval at, std::vector<bool>& measured) {
  const auto first = std::find_if(series.begin(), series.end(), [](double value) { return !std::isnan(value); });
  const auto begin = std::max(at.begin, static_cast<std::size_t>(first - series.begin()));
  for (std::size_t t = begin; t < at.end; ++t) {
    if (std::isnan(series[t])) measured[t - at.begin] = false;
  }
}

/// `visit` gets the process, its channel, and that for each function of the kind.
template <typename Visit>
void for_each_call(const RuleContext& context, std::string_view metric, const CallKind& counts, const Visit& visit) {
  for (const std::size_t channel : context.channels(metric)) {
    const auto [process, function] = call_instance(context.telemetry.channels[channel].instance);
    if (!process.empty() && counts(call_facts(function))) visit(std::string(process), channel);
  }
}

std::map<std::string, std::vector<bool>> measured_by_process(const RuleContext& context, Interval at,
                                                             const CallKind& together) {
  std::map<std::string, std::vector<bool>> measured;
  for (const std::string_view metric : {"stack.time", "stack.bytes"}) {
    for_each_call(context, metric, together, [&](const std::string& process, std::size_t channel) {
      leave_out_gaps(context.telemetry.series(channel), at,
                     measured.try_emplace(process, at.length(), true).first->second);
    });
  }
  return measured;
}

}  // namespace

std::map<std::string, CallSums> calls_by_process(const RuleContext& context, Interval at, const CallKind& counts) {
  return calls_by_process(context, at, counts, counts);
}

std::map<std::string, CallSums> calls_by_process(const RuleContext& context, Interval at, const CallKind& counts,
                                                 const CallKind& together) {
  if (context.channels("stack.time").empty()) throw Unavailable("not measured: stack.time (--stack)");
  auto measured = measured_by_process(context, at, together);
  std::map<std::string, CallSums> processes;
  const auto visit = [&](std::string_view metric, const auto& add) {
    for_each_call(context, metric, counts, [&](const std::string& process, std::size_t channel) {
      CallSums& sums = processes[process];
      if (sums.measured.empty()) sums.measured = measured.try_emplace(process, at.length(), true).first->second;
      add(sums, channel, [&](std::size_t of) { return sum_of(context.telemetry.series(of), at, sums.measured); });
    });
  };
  visit("stack.calls", [](CallSums& sums, std::size_t channel, const auto& sum) {
    sums.calls += sum(channel);
    sums.channels.push_back(channel);
  });
  visit("stack.bytes", [&](CallSums& sums, std::size_t channel, const auto& sum) {
    sums.bytes += sum(channel);
    for (const std::size_t calls : sums.channels) {
      const bool same = context.telemetry.channels[calls].instance == context.telemetry.channels[channel].instance;
      if (same) sums.sized += sum(calls);
    }
  });
  visit("stack.time", [](CallSums& sums, std::size_t channel, const auto& sum) {
    const double seconds = sum(channel) * 1e-9;
    sums.seconds += seconds;
    if (seconds <= sums.dearest_seconds) return;
    sums.dearest = channel;
    sums.dearest_seconds = seconds;
  });
  return processes;
}

std::size_t CallSums::measured_steps() const {
  return static_cast<std::size_t>(std::count(measured.begin(), measured.end(), true));
}

double share_of_windows(const RuleContext& context, const CallSums& sums, Interval at) {
  const std::size_t window = context.steps(10);
  std::size_t with = 0;
  std::size_t all = 0;
  for (std::size_t begin = at.begin; begin + window <= at.end; begin += window) {
    const auto first = sums.measured.begin() + static_cast<std::ptrdiff_t>(begin - at.begin);
    const auto last = first + static_cast<std::ptrdiff_t>(window);
    if (std::find(first, last, true) == last) continue;
    ++all;
    with += std::any_of(sums.channels.begin(), sums.channels.end(), [&](std::size_t channel) {
      return sum_of(context.telemetry.series(channel), {begin, begin + window}) > 0;
    });
  }
  return all == 0 ? 0 : static_cast<double>(with) / static_cast<double>(all);
}

bool is_measured_enough(const RuleContext& context, std::size_t measured) {
  return measured > 0 && context.seconds(measured) >= context.threshold("min_measured");
}

std::optional<BusyProcess> busiest_process(const RuleContext& context, Interval at,
                                           const std::map<std::string, CallSums>& processes) {
  constexpr double kMostWindows = 0.5;
  const auto most = std::max_element(processes.begin(), processes.end(),
                                     [](const auto& a, const auto& b) { return a.second.seconds < b.second.seconds; });
  if (at.length() == 0 || most == processes.end() || !most->second.dearest) return std::nullopt;
  const auto& [name, calls] = *most;
  if (!is_measured_enough(context, calls.measured_steps())) return std::nullopt;
  const double seconds = context.seconds(calls.measured_steps());
  const double share = calls.seconds / seconds;
  if (share < context.threshold("min_share") || share_of_windows(context, calls, at) < kMostWindows)
    return std::nullopt;
  return BusyProcess{.name = name, .calls = calls, .seconds = seconds, .share = share, .rate = calls.calls / seconds};
}

Interval busy_part(const RuleContext& context, const CallSums& sums, Interval at) {
  constexpr double kNothing = 0.01;
  if (!sums.dearest) return at;
  const std::span<const double> series = context.telemetry.series(*sums.dearest);
  const double nothing = kNothing * sum_of(series, at);
  const auto measured = [&](std::size_t t) { return sums.measured[t - at.begin]; };
  Interval part = at;
  double before = 0;
  double after = 0;
  while (part.begin < part.end && measured(part.begin)) {
    if (const double value = series[part.begin]; !std::isnan(value)) before += value;
    if (before > nothing) break;
    ++part.begin;
  }
  while (part.end > part.begin && measured(part.end - 1)) {
    if (const double value = series[part.end - 1]; !std::isnan(value)) after += value;
    if (after > nothing) break;
    --part.end;
  }
  return part;
}

std::string part_measured(const RuleContext& context, std::size_t measured, Interval at) {
  constexpr double kNearlyAll = 0.95;  // single rows may come late
  if (static_cast<double>(measured) >= kNearlyAll * static_cast<double>(at.length())) return "";
  return fmt::format("; measured in {:.0f} of {:.0f} s", context.seconds(measured), context.seconds(at.length()));
}

void set_most_loss_of_share(const RuleContext& context, Finding& finding, double share, std::size_t measured,
                            Interval at, std::string how) {
  const std::string part = part_measured(context, measured, at);
  if (!part.empty()) how += part + ", and taken to be the same in the rest";
  set_most_loss(context, finding, share * context.seconds(at.length()), std::move(how));
}

void add_durations(const RuleContext& context, const std::string& instance, Interval at, Finding& finding) {
  constexpr std::pair<double, const char*> kShares[] = {{0.5, "half of the calls took less than"},
                                                        {0.99, "99 % of the calls took less than"}};
  constexpr int kMostBits = 62;
  std::map<int, double> calls;  // by the power of two of ns below which they are
  double all = 0;
  for (const std::size_t channel : context.channels("stack.histogram")) {
    std::string_view bucket = context.telemetry.channels[channel].instance;  // "rank0/python.gc/2^20ns"
    if (!bucket.starts_with(instance + "/2^") || !bucket.ends_with("ns")) continue;
    bucket.remove_prefix(instance.size() + std::string_view("/2^").size());
    bucket.remove_suffix(std::string_view("ns").size());
    const auto bits = parse_int(bucket);
    if (!bits || *bits < 0 || *bits > kMostBits) continue;
    const double some = sum_of(context.telemetry.series(channel), at);
    calls[static_cast<int>(*bits)] += some;
    all += some;
  }
  if (!(all > 0)) return;
  for (const auto& [share, words] : kShares) {
    double shorter = 0;
    for (const auto& [bits, some] : calls) {
      shorter += some;
      if (shorter < share * all) continue;
      finding.evidence.push_back(
          fact(context, "stack.histogram", instance, words, std::ldexp(1.0, bits), std::nullopt, "ns"));
      break;
    }
  }
}

std::map<std::string, double> counted_rates(const RuleContext& context, std::string_view metric, Interval at,
                                            const CallKind& counts) {
  constexpr double kLeastSeconds = 0.9;  // very many calls are counted for one second, and rest for half a minute
  std::map<std::string, double> rates;
  for_each_call(context, metric, counts, [&](const std::string& process, std::size_t channel) {
    const std::span<const double> series = context.telemetry.series(channel).subspan(at.begin, at.length());
    const auto missing = std::count_if(series.begin(), series.end(), [](double value) { return std::isnan(value); });
    const double seconds = context.seconds(at.length() - static_cast<std::size_t>(missing));
    if (seconds >= kLeastSeconds) rates[process] += sum_of(series, {0, series.size()}) / seconds;
  });
  return rates;
}

Interval after_start(const RuleContext& context) {
  const Interval at{std::min(context.telemetry.samples, context.steps(context.threshold("min_after"))),
                    context.telemetry.samples};
  return context.seconds(at.length()) < context.threshold("min_seconds") ? Interval{} : at;
}

}  // namespace reveal
