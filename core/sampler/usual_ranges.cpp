#include "core/sampler/usual_ranges.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "hdf5schema/basics/clocks.h"

namespace reveal {
namespace {

constexpr std::chrono::seconds kSlowest{1};  // families with a longer period are left out
constexpr int kLooksOfWindow = 3;            // a look each second: the detectors' window
constexpr int kLearning = 20;                // windows before a range means something
constexpr double kBeyond = 0.5;              // in widths of the range
constexpr double kShare = 0.05;              // share of the channels that move
constexpr int kLeast = 8;                    // channels
constexpr int kShortest = 2;                 // windows; a single one is often a coincidence
constexpr int kLongest = 40;                 // windows; a longer change is the program's next phase

bool is_watched(const FamilySpec& spec) noexcept {
  return spec.kind != Kind::state && spec.subsystem != Subsystem::self && spec.period <= kSlowest;
}

double width_of(double low, double high) noexcept {
  return high - low;
}

/// How far outside, in widths of the range; 0 inside.
double distance(double value, double low, double high) noexcept {
  const double outside = std::max(value - high, low - value);
  return outside > 0 ? outside / width_of(low, high) : 0;
}

}  // namespace

UsualRanges::UsualRanges(const TraceSink& sink) {
  for (const Family& family : sink.families()) {
    if (is_watched(family.spec())) families_.push_back({&family, {}});
  }
}

void UsualRanges::Range::take(double value, bool first) noexcept {
  low = first ? value : std::min(low, value);
  high = first ? value : std::max(high, value);
}

void UsualRanges::look(const TickTime& time) {
  if (time.monotonic_ns < next_look_ns_) return;
  const bool first = next_look_ns_ == 0;
  next_look_ns_ = time.monotonic_ns + kSecond;
  for (WatchedFamily& watched : families_) {
    watched.channels.resize(watched.family->row().size());
    add_gauges(watched);
  }
  if (!first && ++looks_ < kLooksOfWindow) return;
  looks_ = 0;
  const double seconds = static_cast<double>(time.monotonic_ns - window_begin_.monotonic_ns) * 1e-9;
  const Window window = judge_window(seconds);
  if (!first) follow(window, time);
  window_begin_ = time;
}

void UsualRanges::add_gauges(WatchedFamily& watched) noexcept {
  if (is_counted(watched.family->spec().kind)) return;
  const std::span<const std::int64_t> row = watched.family->row();
  for (const std::int32_t place : watched.family->stored()) {
    const auto i = static_cast<std::size_t>(place);
    if (row[i] == kMissing) continue;
    watched.channels[i].sum += static_cast<double>(row[i]);
    ++watched.channels[i].looks;
  }
}

UsualRanges::Window UsualRanges::judge_window(double seconds) noexcept {
  Window window;
  for (WatchedFamily& watched : families_) {
    const bool counted = is_counted(watched.family->spec().kind);
    const std::span<const std::int64_t> row = watched.family->row();
    for (const std::int32_t place : watched.family->stored()) {
      const auto i = static_cast<std::size_t>(place);
      Watched& channel = watched.channels[i];
      const std::int64_t before = std::exchange(channel.counted, row[i]);
      const double sum = std::exchange(channel.sum, 0);
      const int looks = std::exchange(channel.looks, 0);
      // A counter that fell, or was not read, has no rate.
      const bool known = counted ? before != kMissing && row[i] != kMissing && row[i] >= before : looks > 0;
      if (!known || seconds <= 0) continue;
      const double level = counted ? static_cast<double>(row[i] - before) / seconds : sum / looks;
      const Range usual = channel.usual;
      const bool learned = channel.windows++ >= kLearning;
      channel.so_far.take(level, channel.windows == 1);
      if (width_of(channel.so_far.low, channel.so_far.high) > 0) ++window.moving;
      if (!learned || width_of(usual.low, usual.high) <= 0) continue;
      const double ranges = distance(level, usual.low, usual.high);
      if (ranges <= kBeyond) continue;
      ++window.beyond;
      if (ranges <= window.ranges) continue;
      window.ranges = ranges;
      window.farthest = &watched.family->channels()[i].get();
    }
  }
  return window;
}

void UsualRanges::follow(const Window& window, const TickTime& time) noexcept {
  const bool unusual = window.beyond >= std::max(kLeast, static_cast<int>(kShare * window.moving));
  if (unusual) {
    if (unusual_windows_++ == 0) open_ = {.begin_utc_ns = window_begin_.utc_ns};
    open_.end_utc_ns = time.utc_ns;
    open_.of_channels = window.moving;
    open_.channels = std::max(open_.channels, window.beyond);
    if (window.ranges > open_.ranges) {
      open_.ranges = window.ranges;
      const ChannelKey& key = *window.farthest;
      std::snprintf(open_.farthest.data(), open_.farthest.size(), "%s%s%s", key.metric.c_str(),
                    key.instance.empty() ? "" : "/", key.instance.c_str());
    }
    if (unusual_windows_ <= kLongest) return;
  } else if (unusual_windows_ >= kShortest) {
    close_interval();
  }
  unusual_windows_ = 0;
  accept_ranges();
}

void UsualRanges::close_interval() noexcept {
  const std::lock_guard lock(mutex_);
  closed_[static_cast<std::size_t>(count_++) % kKept] = open_;
}

/// A change to levels that were seen is not unusual again.
void UsualRanges::accept_ranges() noexcept {
  for (WatchedFamily& watched : families_) {
    for (Watched& channel : watched.channels) channel.usual = channel.so_far;
  }
}

UsualRanges::Closed UsualRanges::closed() const {
  const std::lock_guard lock(mutex_);
  const auto kept = static_cast<std::int64_t>(kKept);
  Closed all{.newest = {}, .left_out = std::max<std::int64_t>(0, count_ - kept)};
  for (std::int64_t i = all.left_out; i < count_; ++i)
    all.newest.push_back(closed_[static_cast<std::size_t>(i) % kKept]);
  return all;
}

}  // namespace reveal
