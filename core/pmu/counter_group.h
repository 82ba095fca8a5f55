// Counters that are read again and again: groups of events on several cpus or tasks, summed over these, with the share
// of the time in which they really counted.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/pmu/perf_event.h"

namespace reveal {

/// A value that stands for less than this share of its time is missing: scaled, it would be a guess.
/// https://man7.org/linux/man-pages/man2/perf_event_open.2.html (multiplexing: time_enabled, time_running)
inline constexpr double kLeastCounted = 0.30;

struct GroupReading {
  std::uint64_t enabled_ns = 0;
  std::uint64_t running_ns = 0;  // less than enabled if others used the same counters
  std::vector<std::uint64_t> values;
};

/// The same events of one cpu or one task.
class CounterGroup {
 public:
  explicit CounterGroup(const PerfTarget& target) : target_(target) {}
  /// 0, or the errno of why this event is not counted here; the others go on.
  int add(const OpenPerf& open, const PerfEvent& event, bool user_only);
  /// Once all are added.
  void start() const noexcept;
  /// False if it cannot be read now.
  [[nodiscard]] bool read() noexcept;
  [[nodiscard]] const GroupReading& reading() const noexcept { return reading_; }
  [[nodiscard]] const PerfTarget& target() const noexcept { return target_; }
  [[nodiscard]] std::size_t events() const noexcept { return files_.size(); }

 private:
  bool read_group() noexcept;
  bool read_each() noexcept;

  PerfTarget target_;
  std::vector<Descriptor> files_;
  std::vector<std::uint64_t> words_;
  GroupReading reading_;
};

/// Sums the growth of several groups of the same events, scaled where they did not count all the time. A sum is
/// published as a counter that never falls, except that it steps back by one if the counts in between are unknown: the
/// trace then has one missing increment (hdf5schema/row_buffer.h).
class ScaledSums {
 public:
  /// Events of a job are enabled while it has a cpu, events of a cpu always: those that are not have lost their cpu.
  enum class Enabled : std::uint8_t { with_the_job, always };

  explicit ScaledSums(std::size_t events, Enabled enabled = Enabled::with_the_job)
      : enabled_(enabled), totals_(events, 1), growth_(events) {}

  /// Call it after read() of the groups. New groups come at the end of the list, and have counted from zero.
  void follow(std::span<const CounterGroup> groups) noexcept;
  /// The same step by step.
  void begin(std::size_t groups) noexcept;
  void add(std::size_t group, const GroupReading& now) noexcept;
  void end() noexcept;
  /// Call it before the next follow(), when a group is taken out of the list.
  void forget(std::size_t group);
  [[nodiscard]] std::size_t events() const noexcept { return totals_.size(); }
  /// Everything was closed: the next counts do not continue the earlier ones.
  void restart() noexcept;

  /// kMissing after a tick in which some group counted for less than kLeastCounted of its time.
  [[nodiscard]] std::int64_t total(std::size_t event) const noexcept;
  /// The share of the least counted group since the last tick that has a value; -1: nothing was to be counted.
  [[nodiscard]] double counted_share() const noexcept { return share_; }

 private:
  Enabled enabled_;
  std::vector<std::int64_t> totals_;
  std::vector<double> growth_;
  std::vector<GroupReading> last_, now_;
  double share_ = -1;
  int missing_ = 0;  // ticks in a row
  bool valid_ = false;
};

}  // namespace reveal
