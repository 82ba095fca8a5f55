#include "postproc/detect/scan/error_counters.h"

#include <algorithm>
#include <cmath>

#include "postproc/numerics/present_values.h"
#include "postproc/telemetry/metric_facts.h"

namespace reveal {

namespace {

constexpr double kQuietSeconds = 3;       // between two bursts
constexpr double kMostBusySeconds = 0.5;  // share of the seconds with a count
constexpr std::size_t kFewBursts = 3;     // more, of similar size, belong to the job
constexpr double kSimilar = 0.2;
/// Share of a count that its parts may lack: one event, spread over ten steps, adds up to 0.9999999999999999.
constexpr double kRounding = 1e-9;
constexpr std::size_t kMostBursts = 200;  // for each counter; a job of weeks has hundreds of thousands

/// Smaller bursts decide nothing: more than kFewBursts larger ones are there.
void keep_largest(std::vector<CounterBurst>& bursts) {
  if (bursts.size() < kMostBursts) return;
  constexpr std::size_t kKept = kMostBursts / 2;
  std::nth_element(bursts.begin(), bursts.begin() + static_cast<std::ptrdiff_t>(kKept), bursts.end(),
                   [](const CounterBurst& a, const CounterBurst& b) { return a.count > b.count; });
  bursts.resize(kKept);
  std::sort(bursts.begin(), bursts.end(),
            [](const CounterBurst& a, const CounterBurst& b) { return a.begin < b.begin; });
}

}  // namespace

double least_count(std::string_view metric) {
  return fact_of(metric, &MetricFact::error_count);
}

CounterWatch::CounterWatch(std::span<const Channel> channels, double step_seconds, const ScanScale& scale)
    : step_seconds_(step_seconds), scale_(scale) {
  for (std::size_t c = 0; c < channels.size(); ++c) {
    const Channel& channel = channels[c];
    if (channel.kind != Kind::counter && channel.kind != Kind::event) continue;
    // Time spent throttled counts nanoseconds; its sibling counts how often.
    if (channel.subsystem == Subsystem::self || channel.unit == Unit::nanoseconds) continue;
    if (const double least = least_count(channel.metric); least > 0)
      counters_.push_back({.channel = c, .least = least});
  }
}

void CounterWatch::count(double value, std::size_t at, Counter& counter) const {
  if (std::isnan(value)) return;
  ++counter.measured;
  counter.total += value;
  if (!(value > 0)) return;
  if (at >= counter.counted_until) {
    const std::size_t second = scale_.samples(1);
    ++counter.busy;
    counter.counted_until = (at / second + 1) * second;
  }
  std::vector<CounterBurst>& bursts = counter.bursts;
  if (bursts.empty() || at - bursts.back().end >= scale_.samples(kQuietSeconds)) {
    keep_largest(bursts);
    bursts.push_back({.channel = counter.channel, .begin = at, .least = counter.least});
    counter.first_measured = counter.measured;
  }
  bursts.back().end = at + 1;
  bursts.back().count += value;
  bursts.back().measured = counter.measured - counter.first_measured + 1;
}

void CounterWatch::add(const Telemetry& piece) {
  for (Counter& counter : counters_) {
    const auto values = piece.series(counter.channel);
    const PresentValues all = present_values(values);
    if (all.present == values.size() && all.low == 0 && all.high == 0) {
      counter.measured += values.size();
      continue;
    }
    for (std::size_t t = 0; t < values.size(); ++t) count(values[t], samples_ + t, counter);
  }
  samples_ += piece.samples;
}

std::vector<CounterBurst> CounterWatch::bursts() const {
  std::vector<CounterBurst> all;
  for (const Counter& counter : counters_) {
    if (static_cast<double>(counter.busy * scale_.samples(1)) > kMostBusySeconds * static_cast<double>(samples_))
      continue;
    double largest = 0;
    for (const CounterBurst& burst : counter.bursts) largest = std::max(largest, burst.count);
    const auto is_similar = [&](const CounterBurst& burst) { return burst.count >= kSimilar * largest; };
    const auto similar =
        static_cast<std::size_t>(std::count_if(counter.bursts.begin(), counter.bursts.end(), is_similar));
    for (CounterBurst burst : counter.bursts) {
      if (burst.count < (1 - kRounding) * counter.least || !is_similar(burst)) continue;
      burst.recurring = similar > kFewBursts;
      burst.observed = burst.count / static_cast<double>(burst.measured) / step_seconds_;
      burst.expected =
          (counter.total - burst.count) / static_cast<double>(counter.measured - burst.measured) / step_seconds_;
      all.push_back(burst);
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const CounterBurst& a, const CounterBurst& b) { return a.begin < b.begin; });
  return all;
}

}  // namespace reveal
