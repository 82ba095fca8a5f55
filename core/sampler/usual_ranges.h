// Intervals in which the rates of many counters of a node were outside the ranges that they had had before: a rough
// check with subtractions and comparisons only, for NODE.status.json while the job runs, and for the pace of dear
// probes (faster_reading.h). The report has detectors for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/job/process_slots.h"
#include "core/kernel_text/kernel_tree.h"
#include "core/sampler/trace_sink.h"

namespace reveal {

struct UnusualInterval {
  std::int64_t begin_utc_ns = 0;
  std::int64_t end_utc_ns = 0;
  int channels = 0;                 // most counters outside their ranges at once
  int of_channels = 0;              // counters whose rate had changed at all until then
  std::array<char, 96> farthest{};  // the counter that was farthest outside: "cpu.user/cpu3", cut
  std::array<char, 64> program{};   // program of the process that it counts, cut; "" for other counters
  bool above = false;               // it was above its range, else below
  double ranges = 0;                // its distance from its range, in widths of that range
};

class UsualRanges {
 public:
  static constexpr std::size_t kKept = 8;

  /// The length of a window: three seconds, or the time between two calls of look().
  enum class Windows : std::uint8_t { of_detectors, by_call };

  /// The sink has all its families.
  explicit UsualRanges(const TraceSink& sink, Windows windows = Windows::of_detectors);

  /// Call it after each tick, or after each window, from the thread that samples. Allocates for new channels only.
  /// `slots` as they are after that tick; null without a job.
  void look(const TickTime& time, const ProcessSlots* slots = nullptr);
  /// How many windows in a row until now were unusual; for the thread that samples.
  [[nodiscard]] int unusual_windows() const noexcept { return unusual_windows_; }

  struct Closed {
    std::vector<UnusualInterval> newest;  // at most kKept, the oldest first
    std::int64_t left_out = 0;            // intervals before them
  };
  /// The intervals that are over; from any thread.
  [[nodiscard]] Closed closed() const;

 private:
  struct Range {
    double low = 0;
    double high = 0;
    void take(double value, bool first) noexcept;
  };
  struct Watched {
    std::int64_t counted = kMissing;  // at the end of the window before
    int windows = 0;
    bool outside = false;   // in this window
    bool at_begin = false;  // in the first one of the open interval
    Range usual;            // until the last window that was not unusual
    Range so_far;           // with all windows since the start
  };
  struct WatchedFamily {
    const Family* family = nullptr;
    std::vector<Watched> channels;
  };
  struct Window {
    int beyond = 0;
    int moving = 0;
    int stayed = 0;  // outside since the begin of the open interval
    double ranges = 0;
    bool above = false;
    const ChannelKey* farthest = nullptr;
    bool of_process = false;  // the farthest one counts a process
  };

  [[nodiscard]] Window judge_window(double seconds) noexcept;
  [[nodiscard]] bool is_unusual(const Window& window) const noexcept;
  void begin_interval(const Window& window) noexcept;
  void follow(const Window& window, const TickTime& time, const ProcessSlots* slots) noexcept;
  void close_interval() noexcept;
  void accept_ranges() noexcept;

  std::vector<WatchedFamily> families_;
  std::int64_t window_ns_;
  TickTime window_begin_;
  int unusual_windows_ = 0;  // in a row
  int began_with_ = 0;       // counters outside in the first of them
  std::int64_t began_ns_ = 0;
  UnusualInterval open_;

  mutable std::mutex mutex_;  // for the two below; held while they are copied
  std::array<UnusualInterval, kKept> closed_;
  std::int64_t count_ = 0;
};

}  // namespace reveal
