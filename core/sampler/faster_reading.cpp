#include "core/sampler/faster_reading.h"

#include <array>
#include <cstdio>
#include <utility>

namespace reveal {
namespace {

// Windows in a row. Most programs do something else for a second or two now and then (an epoch ends, a file is
// written), and each such time would use up the tenth of the recording.
constexpr int kPersistent = 3;

}  // namespace

bool FasterTimes::look(std::int64_t now_ns, bool unusual) noexcept {
  const std::int64_t step = now_ns - std::exchange(looked_ns_, now_ns);
  if (on_) total_ns_ += step;
  if (unusual && !unusual_) onset_ns_ = now_ns;
  unusual_ = unusual;
  const std::int64_t next_total = total_ns_ + step;
  on_ = unusual && now_ns - onset_ns_ < kLongest && kPartOfJob * next_total <= now_ns - begin_ns_ &&
        next_total <= kMostInAll;
  return on_;
}

FasterReading::FasterReading(KernelTree& fs, TraceSink& sink, std::string probes, std::int64_t window_ticks,
                             TickTime begin)
    : fs_(fs),
      sink_(sink),
      probes_(std::move(probes)),
      window_ticks_(window_ticks),
      ranges_(sink, UsualRanges::Windows::by_call),
      times_(begin.monotonic_ns) {}

bool FasterReading::look(const Tick& tick) {
  missed_ += tick.missed;
  const std::int64_t window = tick.number / window_ticks_;
  if (std::exchange(window_, window) == window) return on_;
  if (const bool on = decide(tick); on != on_) change(on);
  missed_ = 0;
  return on_;
}

/// A replay reads as often as the recorded collector did: its recording has no other answers.
bool FasterReading::decide(const Tick& tick) {
  const auto live = [this, &tick] {
    ranges_.look(tick.time);
    // A node that leaves no time for all ticks has none for more readings.
    const bool unusual = ranges_.unusual_windows() >= kPersistent && missed_ == 0;
    return std::string(times_.look(tick.time.monotonic_ns, unusual) ? "on" : "off");
  };
  return fs_.fact("@sampler/faster", live) == "on";
}

void FasterReading::count(std::int64_t elapsed_ns) noexcept {
  ++readings_;
  elapsed_ns_ += elapsed_ns;
}

void FasterReading::close() {
  if (on_) change(false);
}

void FasterReading::change(bool on) {
  on_ = on;
  if (on) {
    began_ns_ = sink_.now();
    sink_.event("reveal", "faster_begin", probes_);
    return;
  }
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "%.1f s, %lld additional readings, %.1f ms",
                static_cast<double>(sink_.now() - began_ns_) / kSecond,
                static_cast<long long>(std::exchange(readings_, 0)),
                static_cast<double>(std::exchange(elapsed_ns_, 0)) * 1e-6);
  sink_.event("reveal", "faster_end", text.data());
}

}  // namespace reveal
