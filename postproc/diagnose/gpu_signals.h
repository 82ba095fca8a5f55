// The job's GPUs for rules: their names, their busy intervals, the limits of their clocks, and the job's activity while
// they stood still.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/signals.h"

namespace reveal {

/// True for all GPUs where the facts at the begin and at the end of the job name none.
[[nodiscard]] bool is_gpu_of_job(const Snapshot& begin, const Snapshot& end, const std::string& gpu);

/// "gpu0", ...; where the facts name the job's GPUs, only these. Throws Unavailable where no use of a GPU was measured.
[[nodiscard]] std::vector<std::string> gpus_measured(const RuleContext& context);

/// Empty where it was not measured.
[[nodiscard]] std::span<const double> gpu_series(const RuleContext& context, std::string_view metric,
                                                 const std::string& gpu);

/// "uuid", "address", "power_limit": as it was at the end where the trace was closed; "" when unknown.
[[nodiscard]] std::string gpu_fact(const RuleContext& context, const std::string& gpu, std::string_view key);
[[nodiscard]] std::optional<double> gpu_number(const RuleContext& context, const std::string& gpu,
                                               std::string_view key);

/// -1 if the firmware does not report it.
[[nodiscard]] int gpu_numa_node(const RuleContext& context, const std::string& gpu);
/// True if GPUs are divided into parts (NVIDIA's MIG; AMD's partitions, whose mode for a whole GPU is SPX): then the
/// driver's values of a whole GPU are not the job's.
[[nodiscard]] bool is_divided(const RuleContext& context, const std::string& gpu);
[[nodiscard]] bool is_divided(const Snapshot& begin, const Snapshot& end, const std::string& gpu);

/// Returns values for remedies: "gpu" is the argument of nvidia-smi -i, amd-smi -g and
/// xpu-smi -d; "nvidia", "amd" or "intel" is set for its maker.
[[nodiscard]] JobValues gpu_values(const RuleContext& context, const std::string& gpu);
/// "gpu2 (0000:c1:00.0)", or "gpu2 (0000:c1:00.0, divided by MIG)".
[[nodiscard]] std::string gpu_name(const RuleContext& context, const std::string& gpu);

/// Words for the job's GPUs on the node, by their number.
struct GpuWords {
  std::string subject;  // "The job's GPUs on node n2", "The job's GPU on node n2"
  std::string_view they, their, were;
};
[[nodiscard]] GpuWords gpu_words(const RuleContext& context);

/// A fact about one GPU, of the whole run.
[[nodiscard]] Finding gpu_finding(const RuleContext& context, const std::string& gpu, const JobValues& more = {});

/// Returns the interval from the first to the last moment in which the series is above the level; empty if it never is.
[[nodiscard]] Interval active_phase(std::span<const double> series, double level);

/// The reasons that held one GPU back while it worked.
struct HeldBack {
  std::string gpu;
  std::string metric;           // the reason that was seen most
  double busy_seconds = 0;      // all in which it worked and the reasons are known
  double seconds = 0;           // seconds of these with one of the reasons
  double longest = 0;           // seconds in a row
  Interval at;                  // from the first to the last of them
  std::optional<double> clock;  // MHz, mean in them
  std::optional<double> clock_otherwise;

  [[nodiscard]] double share() const { return busy_seconds > 0 ? seconds / busy_seconds : 0; }
  /// Work not done in that time, if it follows the clock.
  [[nodiscard]] std::optional<double> lost_seconds() const;
};
/// Returns the GPUs that were held back, by falling time. `unless`: moments with that reason do not count. Throws
/// Unavailable where the driver gives no reasons.
[[nodiscard]] std::vector<HeldBack> held_back(const RuleContext& context, std::span<const std::string_view> reasons,
                                              std::string_view unless = {});

/// Interval, instance, evidence, confidence and cost of the limit that held a GPU back.
[[nodiscard]] Finding held_back_finding(const RuleContext& context, const HeldBack& held, const JobValues& more = {});
/// For the end of its sentence: " 3 more GPUs of the job had the same problem."; "" where it was one.
[[nodiscard]] std::string more_gpus(std::size_t held);

inline constexpr double kGpuWorks = 50;  // percent of use

/// From the first to the last moment in which a GPU works: waits that are shorter than a look at it leave it a part of
/// each look, so half of its usual high use is work. Empty if it never does.
[[nodiscard]] Interval working_phase(std::span<const double> use);

/// The GPUs that work at all; beside a GPU that is full at times, one that never is has another task.
[[nodiscard]] std::vector<std::string> working_gpus(const RuleContext& context);
/// Mean use of these GPUs; `first` gets the first of them.
[[nodiscard]] std::vector<double> mean_gpu_use(const RuleContext& context, std::string& first);
/// Mean power of these GPUs; empty if none reports it.
[[nodiscard]] std::vector<double> mean_gpu_power(const RuleContext& context);
/// The power that 95 % of the phase do not exceed; NaN if it was not measured.
[[nodiscard]] double usual_gpu_power(std::span<const double> power, Interval phase);

/// The moments in which the job's GPUs stood still between their first and their last work.
struct Standstill {
  Interval phase;
  std::vector<bool> idle;   // by step
  double seconds = 0;       // missing GPU time
  double use = 0;           // percent, mean in the phase
  bool never_full = false;  // the program may need its GPUs for so little
  std::string gpu;          // the first of them
  std::string_view how = "time without GPU work between the first and the last work";
};
/// Nothing where the GPUs never work, or work for most of the time. By the rule's min_seconds, min_idle and max_use.
/// Throws Unavailable where they work for less than min_seconds.
[[nodiscard]] std::optional<Standstill> standstill(const RuleContext& context);
/// The mean of a series while the GPUs were idle; NaN where it was not measured then.
[[nodiscard]] double mean_then(const Standstill& still, std::span<const double> series);

/// The job's activity while its GPUs stood still.
struct Meanwhile {
  double cpus = 0;          // used by the job
  double cpus_allowed = 0;  // that it has; 0: not known
  double busiest = 0;       // cpus, of its busiest process
  double second = 0;        // cpus, of the next one; 0: no other was measured
  std::string process;
  double io_wait = 0;          // part of the time in which a task waited for storage; NaN: not measured
  std::string io_wait_metric;  // which counts that
  double blocked = 0;          // processes in uninterruptible sleep, which is mostly for storage; NaN likewise

  [[nodiscard]] bool cpus_full(double share) const { return cpus_allowed > 0 && cpus >= share * cpus_allowed; }
};
[[nodiscard]] Meanwhile meanwhile(const RuleContext& context, const Standstill& still);
/// Bytes a second that left the node. An RDMA port and its network interface may count the same bytes: the larger
/// number is taken.
[[nodiscard]] std::vector<double> sent_away(const RuleContext& context);
/// Bytes a second that came to the node, likewise.
[[nodiscard]] std::vector<double> came_in(const RuleContext& context);

/// Interval, cost (set_most_loss: some of that time may be the program's own way of working) and use of the GPUs.
[[nodiscard]] Finding standstill_finding(const RuleContext& context, const Standstill& still, const JobValues& more);
/// A number of these moments.
[[nodiscard]] Evidence fact_then(const RuleContext& context, const Finding& finding, std::string metric,
                                 const std::string& instance, double observed, std::optional<double> of,
                                 std::string unit);

/// Rows of the tables of rules about a standstill.
inline constexpr Threshold kMinGpuIdle{
    "min_idle", 0.2, "ratio", "part of the time between the first and the last work in which the GPUs are idle"};
inline constexpr Threshold kMaxGpuUse{"max_use", 30, "percent", "utilisation below which a GPU counts as idle"};
inline constexpr Threshold kMinGpuPhase{"min_seconds", 60, "s", "shortest time from the first to the last work"};
inline constexpr Threshold kMinGpuLostSeconds{"min_lost_seconds", 5, "s",
                                              "lost run time from which it is a warning; below it, a notice"};
inline constexpr Threshold kMinGpuLostPercent{"min_lost_percent", 5, "percent",
                                              "lost share of the run from which it is a warning"};

}  // namespace reveal
