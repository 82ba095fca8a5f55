#include "postproc/detect/hard_counters.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>

namespace reveal {

namespace {

struct HardCounter {
  std::string_view part;  // of the metric's name, in lower case
  double least;
};

// Retransmissions, lost probes and discarded acknowledgements are daily life between busy ranks: not here.
constexpr HardCounter kHard[] = {
    {"oom", 1},   {"uncorrect", 1}, {"xid", 1},      {"hung", 1},       {"error", 10},      {"errs", 10},
    {"_err", 10}, {"inerr", 10},    {"rxerr", 10},   {"txerr", 10},     {"drop", 10},       {"overrun", 10},
    {"fifo", 10}, {"overflow", 10}, {"throttl", 10}, {"corrected", 10}, {"allocstall", 10},
};

constexpr double kQuietSeconds = 3;       // between two bursts
constexpr double kMostBusySeconds = 0.5;  // share of the seconds with a count
constexpr std::size_t kFewBursts = 3;     // more, of similar size, belong to the job
constexpr double kSimilar = 0.2;

void add_bursts(const Telemetry& telemetry, const ScanScale& scale, std::size_t channel, double least,
                std::vector<CounterBurst>& bursts) {
  const auto values = telemetry.series(channel);
  const std::size_t quiet = scale.samples(kQuietSeconds);
  const std::size_t second = scale.samples(1);
  std::vector<CounterBurst> mine;
  std::size_t busy = 0;
  std::size_t counted_until = 0;
  for (std::size_t t = 0; t < values.size(); ++t) {
    if (!(values[t] > 0)) continue;
    if (t >= counted_until) {
      ++busy;
      counted_until = (t / second + 1) * second;
    }
    if (mine.empty() || t - mine.back().end >= quiet) mine.push_back({.channel = channel, .begin = t, .least = least});
    mine.back().end = t + 1;
    mine.back().count += values[t];
  }
  if (static_cast<double>(busy * second) > kMostBusySeconds * static_cast<double>(values.size())) return;
  double largest = 0;
  for (const CounterBurst& burst : mine) largest = std::max(largest, burst.count);
  const auto similar = static_cast<std::size_t>(std::count_if(
      mine.begin(), mine.end(), [&](const CounterBurst& burst) { return burst.count >= kSimilar * largest; }));
  for (CounterBurst& burst : mine) {
    if (burst.count < least || burst.count < kSimilar * largest) continue;
    burst.recurring = similar > kFewBursts;
    bursts.push_back(burst);
  }
}

}  // namespace

double least_count(std::string_view metric) {
  std::string lower(metric);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const HardCounter& hard : kHard) {
    if (lower.find(hard.part) != std::string::npos) return hard.least;
  }
  return 0;
}

std::vector<CounterBurst> counter_bursts(const Telemetry& telemetry, const ScanScale& scale) {
  std::vector<CounterBurst> bursts;
  for (std::size_t c = 0; c < telemetry.channels.size(); ++c) {
    const Channel& channel = telemetry.channels[c];
    if (channel.kind != Kind::counter && channel.kind != Kind::event) continue;
    // Time spent throttled counts nanoseconds; its sibling counts how often.
    if (channel.subsystem == Subsystem::self || channel.unit == Unit::nanoseconds) continue;
    const double least = least_count(channel.metric);
    if (least > 0) add_bursts(telemetry, scale, c, least, bursts);
  }
  std::stable_sort(bursts.begin(), bursts.end(),
                   [](const CounterBurst& a, const CounterBurst& b) { return a.begin < b.begin; });
  return bursts;
}

}  // namespace reveal
