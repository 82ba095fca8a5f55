#include "core/sampler/usual_ranges.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <utility>

#include "hdf5schema/basics/clocks.h"

namespace reveal {
namespace {

constexpr std::chrono::seconds kSlowest{1};    // families with a longer period are left out
constexpr std::int64_t kWindow = 3 * kSecond;  // the detectors' window
constexpr int kStarting = 5;                   // windows of a channel that are in no range: a start is unlike the rest
constexpr int kLearning = 20;                  // windows before a range means something
constexpr double kBeyond = 0.75;               // in widths of the range
constexpr double kShare = 0.05;                // share of the counters whose rate changes
constexpr int kLeast = 6;                      // counters
constexpr int kShortest = 2;                   // windows; a single one is often a coincidence
constexpr int kLongest = 40;                   // windows; a longer change is the program's next phase

// Levels are left out: after a disturbance, that of the page cache, for example, stays where it is. So are families
// that are read faster because of this check.
bool is_watched(const FamilySpec& spec) noexcept {
  return is_counted(spec.kind) && spec.subsystem != Subsystem::self && spec.period <= kSlowest &&
         spec.faster.count() == 0;
}

double width_of(double low, double high) noexcept {
  return high - low;
}

/// The program of a counter of a process: "process.cpu_time/slot2", "stack.calls/rank0/ncclAllReduce".
const char* program_in(const ProcessSlots& slots, const ChannelKey& key) noexcept {
  const std::string_view place = std::string_view(key.instance).substr(0, key.instance.find('/'));
  for (const ProcessSlot& slot : slots.slots()) {
    if (slot.instance == place) return slot.process == nullptr ? "" : slot.process->command.c_str();
  }
  return "";
}

/// How far outside, in widths of the range; 0 inside.
double distance(double value, double low, double high) noexcept {
  const double outside = std::max(value - high, low - value);
  return outside > 0 ? outside / width_of(low, high) : 0;
}

}  // namespace

UsualRanges::UsualRanges(const TraceSink& sink, Windows windows)
    : window_ns_(windows == Windows::of_detectors ? kWindow : 0) {
  for (const Family& family : sink.families()) {
    if (is_watched(family.spec())) families_.push_back({&family, {}});
  }
}

void UsualRanges::Range::take(double value, bool first) noexcept {
  low = first ? value : std::min(low, value);
  high = first ? value : std::max(high, value);
}

void UsualRanges::look(const TickTime& time, const ProcessSlots* slots) {
  const bool first = window_begin_.monotonic_ns == 0;
  if (!first && time.monotonic_ns < window_begin_.monotonic_ns + window_ns_) return;
  for (WatchedFamily& watched : families_) watched.channels.resize(watched.family->row().size());
  const Window window = judge_window(static_cast<double>(time.monotonic_ns - window_begin_.monotonic_ns) / kSecond);
  if (!first) follow(window, time, slots);
  window_begin_ = time;
}

UsualRanges::Window UsualRanges::judge_window(double seconds) noexcept {
  Window window;
  for (WatchedFamily& watched : families_) {
    const std::span<const std::int64_t> row = watched.family->row();
    for (const std::int32_t place : watched.family->stored()) {
      const auto i = static_cast<std::size_t>(place);
      Watched& channel = watched.channels[i];
      channel.outside = false;
      const std::int64_t before = std::exchange(channel.counted, row[i]);
      if (before == kMissing || row[i] == kMissing || row[i] < before || seconds <= 0) continue;  // no rate
      const double rate = static_cast<double>(row[i] - before) / seconds;
      const Range usual = channel.usual;
      const int windows = channel.windows++;
      const bool learned = windows >= kLearning;
      if (windows >= kStarting) channel.so_far.take(rate, windows == kStarting);
      if (width_of(channel.so_far.low, channel.so_far.high) > 0) ++window.moving;
      if (!learned || width_of(usual.low, usual.high) <= 0) continue;
      const double ranges = distance(rate, usual.low, usual.high);
      channel.outside = ranges > kBeyond;
      if (!channel.outside) continue;
      ++window.beyond;
      if (channel.at_begin) ++window.stayed;
      if (ranges <= window.ranges) continue;
      window.ranges = ranges;
      window.above = rate > usual.high;
      window.farthest = &watched.family->channels()[i].get();
      window.of_process = watched.family->spec().scope == Scope::process;
    }
  }
  return window;
}

/// An interval lasts while half of the counters with which it began are outside.
bool UsualRanges::is_unusual(const Window& window) const noexcept {
  if (unusual_windows_ > 0) return 2 * window.stayed >= began_with_;
  return window.beyond >= std::max(kLeast, static_cast<int>(kShare * window.moving));
}

void UsualRanges::begin_interval(const Window& window) noexcept {
  open_ = {};
  began_ns_ = window_begin_.monotonic_ns;
  began_with_ = window.beyond;
  for (WatchedFamily& watched : families_) {
    for (Watched& channel : watched.channels) channel.at_begin = channel.outside;
  }
}

void UsualRanges::follow(const Window& window, const TickTime& time, const ProcessSlots* slots) noexcept {
  if (is_unusual(window)) {
    if (unusual_windows_++ == 0) begin_interval(window);
    open_.end_utc_ns = time.utc_ns;
    open_.begin_utc_ns = time.utc_ns - (time.monotonic_ns - began_ns_);  // the wall clock may have been set since
    open_.of_channels = window.moving;
    open_.channels = std::max(open_.channels, window.beyond);
    if (window.ranges > open_.ranges) {
      open_.ranges = window.ranges;
      open_.above = window.above;
      const ChannelKey& key = *window.farthest;
      std::snprintf(open_.farthest.data(), open_.farthest.size(), "%s%s%s", key.metric.c_str(),
                    key.instance.empty() ? "" : "/", key.instance.c_str());
      const char* const program = window.of_process && slots != nullptr ? program_in(*slots, key) : "";
      std::snprintf(open_.program.data(), open_.program.size(), "%s", program);
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

/// Rates that were seen are not unusual again.
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
