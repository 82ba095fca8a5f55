// Decides when probes that are read seldom, because a reading is dear, are read faster: while the rates of many
// counters of the node stay outside the ranges that they had before. The limits hold for every job.
#pragma once

#include <cstdint>
#include <string>

#include "core/kernel_text/kernel_tree.h"
#include "core/sampler/ticker.h"
#include "core/sampler/trace_sink.h"
#include "core/sampler/usual_ranges.h"
#include "hdf5schema/basics/clocks.h"

namespace reveal {

/// The limits of the time in which probes are read faster.
class FasterTimes {
 public:
  static constexpr std::int64_t kLongest = 10 * kSecond;      // after an onset
  static constexpr std::int64_t kPartOfJob = 10;              // a tenth of the recording
  static constexpr std::int64_t kMostInAll = 3600 * kSecond;  // a trace has a limited number of chunks

  explicit FasterTimes(std::int64_t begin_ns) noexcept : begin_ns_(begin_ns), looked_ns_(begin_ns) {}

  /// Whether probes are read faster until the next call, which comes after as long a time as this one.
  [[nodiscard]] bool look(std::int64_t now_ns, bool unusual) noexcept;
  [[nodiscard]] std::int64_t total_ns() const noexcept { return total_ns_; }

 private:
  std::int64_t begin_ns_;
  std::int64_t looked_ns_;
  std::int64_t onset_ns_ = 0;
  std::int64_t total_ns_ = 0;
  bool unusual_ = false;
  bool on_ = false;
};

class FasterReading {
 public:
  /// The sink has all its families. `probes`: the names of those that are read faster. A window has so many ticks.
  FasterReading(KernelTree& fs, TraceSink& sink, std::string probes, std::int64_t window_ticks, TickTime begin);

  /// Call it on each tick before its probes are read: whether those are read faster. It changes at the begin of a
  /// window only.
  [[nodiscard]] bool look(const Tick& tick);
  /// A reading that came in addition, and the time of the sampling thread that it took.
  void count(std::int64_t elapsed_ns) noexcept;
  /// No tick follows.
  void close();

 private:
  [[nodiscard]] bool decide(const Tick& tick);
  void change(bool on);

  KernelTree& fs_;
  TraceSink& sink_;
  std::string probes_;
  std::int64_t window_ticks_;
  std::int64_t window_ = -1;
  UsualRanges ranges_;
  FasterTimes times_;
  std::int64_t missed_ = 0;  // ticks in this window
  bool on_ = false;
  std::int64_t began_ns_ = 0;
  std::int64_t readings_ = 0;
  std::int64_t elapsed_ns_ = 0;
};

}  // namespace reveal
