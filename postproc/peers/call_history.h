// When the ranks of one node made no call that waits for other ranks, small enough for its summary: long times of that
// kind on all ranks at once are a hang of the job, or a stall.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/telemetry/last_collectives.h"
#include "postproc/telemetry/python_samples.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

struct FunctionCalls {
  std::string function;
  std::int64_t calls = 0;
  bool operator==(const FunctionCalls&) const = default;
};

/// A time in which a rank made no call that waits for other ranks.
struct QuietTime {
  std::int64_t begin_utc_ns = 0, end_utc_ns = 0;
  bool to_the_end = false;                // until the end of the recording
  std::int64_t process_ended_utc_ns = 0;  // 0: it was there all the time
  bool timed = false;                     // it is known in which calls it was meanwhile
  std::string inside;                     // the function in which a thread of it was for most of it; "": none
  double inside_seconds = 0;
  std::string last;                            // the collective that it called last
  std::optional<double> cpus;                  // that it used, on average
  std::optional<double> job_cpus;              // that processes of the job which are no ranks used on the node
  std::optional<double> stopped;               // processes in state T on its node, more than before it
  std::optional<double> io_bytes;              // that it read and wrote
  std::int64_t other_calls = 0;                // other calls of the software stack: kernels launched, memory copied ...
  std::string place;                           // place of its main thread; "": not known, or not always the same
  std::vector<FunctionCalls> calls;            // that wait for other ranks, from the begin of the job until then
  std::int64_t before_utc_s = 0;               // the second of the first number in `before`
  std::string before;                          // calls of collectives so far, at each whole second before it
  std::vector<LastCollectives> communicators;  // the one that was called last comes first; times are UTC
  bool operator==(const QuietTime&) const = default;

  [[nodiscard]] double seconds() const { return static_cast<double>(end_utc_ns - begin_utc_ns) * 1e-9; }
};

struct RankCalls {
  std::string rank;
  std::int64_t calls = 0;        // calls of collectives; 0: a rank beside others that never made one
  std::int64_t passes = 0;       // backward passes: it is a training
  std::vector<QuietTime> quiet;  // the longest ones, in order of time
  bool operator==(const RankCalls&) const = default;
};

struct CallHistory {
  std::vector<RankCalls> ranks;
  bool operator==(const CallHistory&) const = default;
};

/// The offset is that of the times of `python` and `standing`.
[[nodiscard]] CallHistory call_history_of(const Telemetry& telemetry, std::span<const PythonSamples> python = {},
                                          std::int64_t utc_minus_monotonic_ns = 0,
                                          std::span<const StandingProcess> standing = {});

/// Calls at whole seconds from `quiet.before_utc_s` on.
[[nodiscard]] std::vector<std::int64_t> calls_before(const QuietTime& quiet);

}  // namespace reveal
