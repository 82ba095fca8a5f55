// Opens the probes, and takes one sample of everything that is due per tick. One thread, no allocation once everything
// was seen; a change (a process, a disk, a cpu) may cost one.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/job/job.h"
#include "core/job/net_namespaces.h"
#include "core/job/process_slots.h"
#include "core/sampler/faster_reading.h"
#include "core/sampler/metric_selection.h"
#include "core/sampler/probe.h"
#include "core/sampler/ticker.h"
#include "core/sampler/trace_sink.h"

namespace reveal {

class Sampler {
 public:
  struct Options {
    std::chrono::nanoseconds interval = kDefaultInterval;
    std::vector<std::string> probes;  // names; empty: all
    std::optional<JobSource> job;     // ignored if the recording contains its job
    std::unique_ptr<Job> found_job;   // this one, if the caller waited for it
    std::string gpu_library;          // NVML; "": by its usual name
    std::string metrics_file;         // the selection of metrics, and metrics of the site's own; "": everything, none
    bool stack = false;               // the probes "stack" and "python" are on; also if they are among `probes`
    bool stack_forbidden = false;     // see ProbeContext
    double stack_budget = kDefaultStackBudget;  // likewise
    std::vector<std::string> stack_without;     // likewise
    bool faster_reading = true;                 // see FasterReading
    int own_pid = 0;
    int perf_broker = -1;  // see ProbeContext
    int call_broker = -1;  // likewise
  };

  /// Opens every probe. A missing source is coverage, not an error.
  Sampler(KernelTree& fs, TraceSink& sink, Options options, TickTime now);

  /// Looks at everything once, without writing rows: adds the channels that are there. Before the trace begins.
  void look_first();
  void sample(const Tick& tick) noexcept;
  /// Call it after the last sample, and before everything that takes time: others may wait for files that probes hold
  /// open.
  void close() noexcept;
  /// Writes the first look, at its own time: the start values of counters. Once the trace has begun.
  void write_first_look() noexcept;

  [[nodiscard]] std::vector<Coverage> coverage() const;
  [[nodiscard]] std::vector<CheckedProbe> checked() const;
  /// Facts that the probes add to the snapshot.
  [[nodiscard]] Snapshot facts() const;
  [[nodiscard]] const Job* job() const noexcept { return job_.get(); }
  /// Null without a job.
  [[nodiscard]] const ProcessSlots* slots() const noexcept { return slots_.get(); }
  [[nodiscard]] const Host& host() const noexcept { return host_; }
  [[nodiscard]] const std::vector<int>& job_cpus() const noexcept { return job_cpus_; }
  [[nodiscard]] const MetricSelection& selection() const noexcept { return selection_; }
  [[nodiscard]] bool job_ended() const noexcept { return job_ && job_->ended(); }

 private:
  struct Opened {
    std::unique_ptr<Probe> probe;
    std::int64_t every = 1;         // ticks
    std::int64_t faster_every = 0;  // ticks while something is unusual; 0: as usual
    std::size_t coverage = 0;       // its place there
  };
  void begin_faster_reading(TickTime now);
  void open_probes(const ProbeContext& context);
  void find_job_cpus();

  KernelTree& fs_;
  TraceSink& sink_;
  Options options_;
  MetricSelection selection_;
  Host host_;
  std::unique_ptr<Job> job_;
  std::unique_ptr<ProcessSlots> slots_;
  std::unique_ptr<NetNamespaces> namespaces_;
  std::vector<int> job_cpus_;
  SelfMeasurement self_;
  ReadingPace pace_;
  std::optional<FasterReading> faster_;  // where probes can be read faster
  std::vector<Opened> opened_;
  std::vector<Coverage> coverage_;
  std::vector<Absence> absences_;              // one for each entry of coverage_
  std::optional<std::int64_t> first_look_ns_;  // recordings made before it was written do not have it
};

/// The probes with these names, or all. Throws Error for an unknown one, with the near name.
[[nodiscard]] std::vector<ProbeSpec> select_probes(const std::vector<std::string>& names);

}  // namespace reveal
