// One recording from start to end: the work of `reveal-collect` after its command line was read.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/job/job.h"
#include "core/sampler/probe.h"
#include "hdf5schema/rewrite.h"
#include "hdf5schema/trace.h"

namespace reveal {

struct CollectOptions {
  std::filesystem::path output;
  TraceHeader header;  // node, job and tags; times are filled in
  std::string job;     // "pid:N", "run:DIR", ""
  /// Waits for the job, before anything is written; false: it did not come, and nothing is.
  std::function<bool(KernelTree&, const Host&, Job&)> await_job;
  std::optional<std::chrono::nanoseconds> duration;
  std::vector<std::string> probes;
  std::string gpu_library;  // NVML; "": by its usual name
  bool stack = false;       // the probes that are off otherwise
  bool stack_forbidden = false;
  double stack_budget = kDefaultStackBudget;
  std::vector<std::string> stack_without;  // functions whose calls are never counted
  std::vector<std::string> interventions;  // rules on whose findings it may act
  bool faster_reading = true;              // see FasterReading
  std::string metrics_file;                // the selection of metrics, and metrics of the site's own
  std::filesystem::path root = "/";
  std::filesystem::path record;                      // "": no recording
  std::uint64_t max_bytes = std::uint64_t{4} << 30;  // 0: as large as it gets
  int perf_broker = -1;                              // a socket of the broker, which may open counters
  int call_broker = -1;                              // likewise, for counting calls
  Retention retention;
  double min_seconds = 0;                         // a shorter recording leaves no file
  std::optional<std::int64_t> watching_since_ns;  // monotonic; without: since the call
};

struct CollectResult {
  std::int64_t ticks = 0;
  std::int64_t ticks_missed = 0;
  std::int64_t ticks_late = 0;  // by more than 10 ms
  std::uint64_t channels = 0;
  std::uint64_t rows_lost = 0;
  bool kept = true;
  std::string missing_metrics;  // requested and not here, in one sentence
  std::string not_rewritten;    // why the trace stays larger than it could be; ""
};

/// Returns when the duration is over, the job has ended, the recording is at its end or `stop` is set. Throws Error.
CollectResult collect(const CollectOptions& options, const std::atomic<bool>& stop);

/// The configuration of the node, as a trace keeps it.
[[nodiscard]] Snapshot node_facts(const CollectOptions& options);

/// Opens all probes once, here and now, and returns the coverage of each. Nothing is written.
[[nodiscard]] std::vector<CheckedProbe> check_probes(const CollectOptions& options);

}  // namespace reveal
