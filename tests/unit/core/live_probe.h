// Probes on the machine that the tests run on.
#pragma once

#include <linux/perf_event.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>

#include "core/pmu/counted_events.h"
#include "core/sampler/sampler.h"

namespace reveal {

inline TickTime now() {
  return SystemClock().now();
}

inline bool perf_is_here() {
  return static_cast<bool>(open_perf_event({.event = {.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_TASK_CLOCK},
                                            .target = {.task = ::getpid()},
                                            .user_only = true})
                               .fd);
}

/// One probe of this host, as the collector runs it.
class LiveProbe {
 public:
  explicit LiveProbe(const std::string& probe, std::optional<int> job = std::nullopt)
      : sampler_(fs_, sink_,
                 {.probes = {probe},
                  .job = job ? std::optional(JobSource{.pid = *job}) : std::nullopt,
                  .own_pid = ::getpid()},
                 now()) {
    sampler_.look_first();
  }
  /// A read that took long, on a busy machine, is followed by ticks that are left out.
  void sample() {
    for (int tick = 0; tick < 25; ++tick) {
      sampler_.sample({.time = now(), .number = 0});
      if (task_clock() != kMissing) return;
    }
  }
  [[nodiscard]] std::int64_t value(const std::string& family, const std::string& metric) const {
    const Family* found = sink_.find(family);
    return found == nullptr ? kMissing : found->value(metric);
  }
  [[nodiscard]] std::int64_t task_clock() const { return value("perf/cpu_time", "perf.task_clock"); }
  [[nodiscard]] std::int64_t minor_faults() const { return value("perf/software", "perf.page_faults_minor"); }
  [[nodiscard]] Coverage coverage() const { return sampler_.coverage().front(); }

 private:
  KernelTree fs_;
  TraceSink sink_;
  Sampler sampler_;
};

}  // namespace reveal
