// The rows of GPUs, their links and the processes on them: a line "METRIC VALUE METRIC VALUE ..." about one of them
// becomes values of the families that have these metrics. A channel appears with its first value.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/job/process_slots.h"
#include "core/sampler/trace_sink.h"

namespace reveal {

class GpuRows {
 public:
  explicit GpuRows(std::span<const FamilyTable> tables);

  /// Adds the families. Those from the one with the path `first_slow` on have the longer period.
  void open(TraceSink& sink, std::string_view first_slow, std::chrono::nanoseconds period,
            std::chrono::nanoseconds slow_period);

  /// The families that are read each time and, where `slow` is set, the others.
  void begin(bool slow) noexcept;
  void commit(bool slow) noexcept;

  /// Null if there is none with this path.
  [[nodiscard]] Family* family(std::string_view path) const noexcept;

  /// The instance is `prefix` with `rest`: "gpu" and "0/link3". A word that no family has as a metric is left out.
  /// Returns whether a value of the families that are read each time was among them.
  bool take(std::string_view prefix, std::string_view rest, std::string_view role, std::string_view words);
  /// The same of a process, "PID GPU METRIC VALUE ...". It is left out unless it is one of `slots`, which may be null.
  void take_process(const ProcessSlots* slots, std::string_view line);
  /// One value; `before` as in Family::add.
  void set(std::string_view prefix, std::string_view rest, std::string_view role, std::string_view metric,
           std::int64_t value, std::int64_t before = kMissing);

 private:
  struct Column {
    std::string_view metric;
    std::size_t family;
  };
  struct Place {
    std::string instance;
    std::string role;
    std::vector<std::int32_t> channels;  // by column
  };

  [[nodiscard]] std::size_t families(bool slow) const noexcept { return slow ? families_.size() : first_slow_; }
  [[nodiscard]] Place* place_of(std::string_view prefix, std::string_view rest, std::string_view role);
  [[nodiscard]] std::size_t column_of(std::string_view metric);
  void set(Place& place, std::size_t column, std::int64_t value, std::int64_t before);

  static constexpr std::size_t kMostPlaces = 2048;  // GPUs, their links, and processes on them

  std::span<const FamilyTable> tables_;
  std::vector<Column> columns_;
  std::vector<Family*> families_;
  std::size_t first_slow_ = 0;
  std::vector<Place> places_;
  std::size_t next_place_ = 0;
  std::size_t next_column_ = 0;
};

}  // namespace reveal
