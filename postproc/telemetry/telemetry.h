// One node's telemetry on a regular time grid: the input of features, detectors and rules. It is independent of probes;
// every channel describes itself.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/vocabulary.h"
#include "postproc/numerics/calloc_allocator.h"

namespace reveal {

struct Channel {
  std::string metric;    // "mem.dirty"
  std::string instance;  // "cpu3"; "" for the whole node
  std::string family;    // "memory/meminfo"
  std::string role;      // "job", "rank", "node": see ChannelKey
  Kind kind = Kind::gauge;
  Unit unit = Unit::count;
  Scope scope = Scope::node;
  Subsystem subsystem = Subsystem::cpu;
  double period_seconds = 0;  // period of its own sampling; slower than the grid for slow families
  std::string program = {};   // name of its process; "": it has none, or several, or it is not known

  /// "mem.dirty" or "cpu.user/cpu3".
  [[nodiscard]] std::string name() const { return instance.empty() ? metric : metric + "/" + instance; }
};

/// values are [channel][time]: counters as increments per grid step, gauges as levels; NaN where not measured.
/// A slow family is held on the grid: gauges keep their last level, counters spread evenly over the steps they cover.
struct Telemetry {
  std::string node;
  double step_seconds = 0.1;
  std::int64_t begin_utc_ns = 0;  // begin of sample 0
  std::size_t samples = 0;
  std::vector<Channel> channels;
  std::vector<double, CallocAllocator<double>> values;

  [[nodiscard]] std::span<const double> series(std::size_t channel) const {
    return std::span(values).subspan(channel * samples, samples);
  }
  [[nodiscard]] std::span<double> series(std::size_t channel) {
    return std::span(values).subspan(channel * samples, samples);
  }
};

}  // namespace reveal
