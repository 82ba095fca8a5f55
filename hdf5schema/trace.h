// The parts of a trace in memory; DESIGN of the file itself: hdf5schema/README.md.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hdf5schema/vocabulary.h"

namespace reveal {

inline constexpr int kSchemaVersion = 1;

/// Rows per chunk at the base period; a chunk is flushed once, when it is full or at the end.
inline constexpr std::chrono::seconds kChunkTime{10};
/// Up to this many values a closed trace is rewritten: half of a short one is what the library needs to survive a
/// crash. Larger ones would take longer than the end of a job may wait.
inline constexpr std::uint64_t kCompactValues = std::uint64_t{12} << 20;

/// Root attributes: the recorder and the recorded job.
struct TraceHeader {
  std::string job_id;  // "" outside a batch system
  std::string job_name;
  std::string user;
  std::string cluster;
  std::string node;
  std::string command;   // program name only; arguments may be secrets
  std::string run_key;   // the command: a hash of program and arguments, or "name:TEXT"; "" when unknown
  std::string trace_id;  // 32 random hexadecimal digits that copies keep; "" in older traces and in replays
  std::string tool_version;
  std::chrono::nanoseconds interval{};
  std::int64_t begin_utc_ns = 0;
  std::vector<std::pair<std::string, std::string>> tags;
};

/// One dataset: everything that shares group, kind, unit, scope and period. `path` is "memory/meminfo".
struct FamilySpec {
  std::string path;
  Kind kind = Kind::gauge;
  Unit unit = Unit::count;
  Scope scope = Scope::node;
  Subsystem subsystem = Subsystem::cpu;
  std::string long_name;
  std::string source;  // "/proc/meminfo"
  std::chrono::nanoseconds period{};
  /// Families of one period share one time axis: a tick of the collector is one row for all of them. Data that arrives
  /// at its own times (from a child process) names its own clock: "gpu".
  std::string clock = {};
  /// float64 although its unit counts whole things: a mean of them.
  bool real = false;
  /// The period of additional rows while the collector found the node unusual, a part of `period`; 0: there are none.
  /// Needs a clock of its own.
  std::chrono::nanoseconds faster = {};
  /// A counter that is missing in rows may go on in the kernel or a device for so long: its next increment is spread
  /// over that time. 0: while it is missing, nothing is counted. None: the family does not state it.
  std::optional<std::chrono::nanoseconds> longest_rest = {};
};

/// One row of a family. `metric` ("mem.dirty"), `instance` ("cpu3", "vda", "" for the whole node),
/// `role`: "job" (belongs to the job: its cgroup, its processes, a cpu it may use), "rank" (a process slot of the job),
/// "node" (everything else). Times are on the trace's monotonic axis; died = 0 while it lives. Rows are never reused.
struct ChannelKey {
  std::string metric;
  std::string instance;
  std::string role = "node";
  std::int64_t born_ns = 0;
  std::int64_t died_ns = 0;
};

/// Code of the events with the positions of Python's main threads.
inline constexpr std::string_view kPythonFrames = "python_frames";
/// Code of the events with the newest collectives on each communicator of a process that begins no other one.
inline constexpr std::string_view kLastCollectives = "last_collectives";

struct Event {
  std::int64_t time_ns = 0;  // monotonic axis
  std::string object;        // "process 4711", "probe cpu", "clock"
  std::string code;  // "process_begin", "probe_lost", "clock_step", "ticks_missed", "rows_lost", "job_begin", ...
  std::string text;  // cut to the table's width, never a secret
};

/// The result of opening a probe on this node; the reason is a sentence for the reader of the report.
struct Coverage {
  enum class State : std::uint8_t { ok, absent, failed };
  std::string probe;
  State state = State::ok;
  std::string reason;
  bool operator==(const Coverage&) const = default;
};
/// In the order of Coverage::State.
inline constexpr std::string_view kCoverageStates[] = {"ok", "absent", "failed"};
static_assert(std::size(kCoverageStates) == static_cast<std::size_t>(Coverage::State::failed) + 1);

/// (monotonic, UTC, maximum error), so that nodes can be aligned.
struct ClockPair {
  std::int64_t monotonic_ns = 0;
  std::int64_t utc_ns = 0;
  std::int64_t max_error_ns = 0;
};

/// Configuration facts as sorted key/value text, e.g. {"kernel.release", "6.1.0"}, {"job.cpus_allowed", "0-3"}.
using Snapshot = std::vector<std::pair<std::string, std::string>>;

}  // namespace reveal
