// A probe measures one thing. It is one file in core/probes: tables, a parser, a class and a registration line; nothing
// elsewhere lists it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/job/job.h"
#include "core/job/net_namespaces.h"
#include "core/job/process_slots.h"
#include "core/kernel_text/kernel_tree.h"
#include "core/sampler/host.h"
#include "core/sampler/trace_sink.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/trace.h"

namespace reveal {

class Probe {
 public:
  virtual ~Probe() = default;
  /// Reads, fills its families and commits them. In the steady state it allocates nothing.
  virtual void sample() noexcept = 0;
  /// The job is over: takes the remaining data, and releases resources that others wait for. No sample follows.
  virtual void close() noexcept {}
  /// Its losses and unexpected differences, in one sentence for the reader of the report; "": nothing.
  [[nodiscard]] virtual std::string caveat() const { return ""; }
  /// Facts for the configuration snapshot that only this probe can read.
  [[nodiscard]] virtual Snapshot facts() const { return {}; }
};

/// Reveal's own work, for the probe that measures it.
struct SelfMeasurement {
  std::int64_t late_ns = 0;       // lateness of this tick
  std::int64_t ticks_missed = 0;  // so far
  std::vector<std::string_view> parts;
  std::vector<std::int64_t> part_ns;  // elapsed in each part so far, same order
};

/// How the probes are read on this tick.
struct ReadingPace {
  bool faster = false;  // those with `faster_while_unusual` are read faster
  bool extra = false;   // this reading is between two of the probe's usual ones
};

/// Percent of the cpu time of the measured processes.
inline constexpr double kDefaultStackBudget = 0.5;

/// Everything a probe may look at. `job` and the members that depend on it are null without a job.
struct ProbeContext {
  KernelTree& fs;
  const Host& host;
  TraceSink& sink;
  std::chrono::nanoseconds period;
  const Job* job = nullptr;
  const ProcessSlots* slots = nullptr;
  const NetNamespaces* namespaces = nullptr;
  const SelfMeasurement* self = nullptr;
  const std::vector<int>* job_cpus = nullptr;       // the job may use these, as known at the start
  std::string_view site_metrics = {};               // a file with metrics of the site's own
  std::string_view gpu_library = {};                // NVML, a name or a path
  bool stack = false;                               // requested: the probes "stack" and "python"
  bool stack_forbidden = false;                     // by the site, whoever requests it
  double stack_budget = kDefaultStackBudget;        // that counting calls may take
  std::span<const std::string> stack_without = {};  // functions whose calls are never counted
  int perf_broker = -1;         // a socket of the process that opens counters of the job's cgroup (perf_broker.h)
  int call_broker = -1;         // a socket, for the probe "stack", of the process that counts calls (call_server.h)
  std::string_view probe = {};  // its name
  std::chrono::nanoseconds faster = {};  // its period while something is unusual; 0: the usual one
  const ReadingPace* pace = nullptr;

  Family& family(const FamilyTable& table) const { return sink.add_family(table, period); }
  /// One whose values are missing while nothing counts.
  Family& family_of_turns(const FamilyTable& table) const {
    return sink.add_family(table, period, {}, {}, std::chrono::nanoseconds(0));
  }
  /// One that also gets rows from the readings in between: on an axis of its own.
  Family& faster_family(const FamilyTable& table) const {
    return sink.add_family(table, period, faster, faster.count() > 0 ? probe : std::string_view());
  }
  [[nodiscard]] bool is_faster() const noexcept { return pace != nullptr && pace->faster && faster.count() > 0; }
  [[nodiscard]] bool is_extra() const noexcept { return pace != nullptr && pace->extra; }
  [[nodiscard]] std::string_view role_of_cpu(int cpu) const;
};

using namespace std::chrono_literals;

/// Probes with this period run on every tick, whatever the interval.
inline constexpr std::chrono::nanoseconds kDefaultInterval = 100ms;

/// Why a probe has no data, by the remedy. The table of collector_query.cpp sorts probes by these names.
enum class Absence : std::uint8_t {
  not_here,    // this machine lacks the source
  needs_job,   // only jobs have it
  off,         // it was not requested
  obtainable,  // an administrator can enable it
  hardware,    // an administrator can enable it, except on a virtual machine
};
[[nodiscard]] std::string_view name_of(Absence absence) noexcept;

/// For a reason of another kind than that of the probe's row.
class Absent : public Unavailable {
 public:
  Absent(const std::string& why, Absence why_absent) : Unavailable(why), absence(why_absent) {}
  Absence absence;
};

/// Throws Absent without a job.
void need_job(const ProbeContext& context);

struct CheckedProbe {
  Coverage coverage;
  Absence absence = Absence::not_here;  // if it is not ok
};

struct ProbeSpec {
  std::string_view name;
  std::string_view help;
  /// Rounded to a multiple of the interval, at least one; kDefaultInterval: each tick.
  std::chrono::nanoseconds period = kDefaultInterval;
  bool may_block = false;
  std::span<const FamilyTable> families;
  /// Throws Unavailable("why"), a sentence for the reader of the report.
  std::unique_ptr<Probe> (*open)(const ProbeContext&) = nullptr;
  /// For probes that cost more on larger hosts; replaces `period`.
  std::chrono::nanoseconds (*period_on)(const Host&) = nullptr;
  /// How to enable a missing source, or why that is not needed or not possible. For `reveal doctor`.
  std::string_view remedy = {};
  /// The absence if open() throws Unavailable.
  Absence absence = Absence::not_here;
  /// The privilege that a user needs to see all of it; "": none.
  std::string_view privilege = {};
  /// The period while something on the node is unusual (faster_reading.h), if it divides the usual one; 0: none. The
  /// probe keeps to its share of a core: it may leave readings out.
  std::chrono::nanoseconds faster_while_unusual = {};
};

/// All registered probes by name.
[[nodiscard]] const std::vector<ProbeSpec>& probes();

struct RegisteredProbe {
  explicit RegisteredProbe(const ProbeSpec& spec);
};

}  // namespace reveal
