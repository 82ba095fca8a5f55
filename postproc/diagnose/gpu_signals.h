// The job's GPUs as rules look at them: when they worked, what held their clocks down, and who they are.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/signals.h"

namespace reveal {

/// "gpu0", ...; where the facts name the job's GPUs, only these. Throws Unavailable where no use of a GPU was measured.
[[nodiscard]] std::vector<std::string> gpus_measured(const RuleContext& context);

/// Empty where it was not measured.
[[nodiscard]] std::span<const double> gpu_series(const RuleContext& context, std::string_view metric,
                                                 const std::string& gpu);

/// "uuid", "address", "power_limit": as it was at the end where the trace was closed; "" when unknown.
[[nodiscard]] std::string gpu_fact(const RuleContext& context, const std::string& gpu, std::string_view key);
[[nodiscard]] std::optional<double> gpu_number(const RuleContext& context, const std::string& gpu,
                                               std::string_view key);

/// -1 where the firmware does not say it.
[[nodiscard]] int gpu_numa_node(const RuleContext& context, const std::string& gpu);
/// True if GPUs are divided into parts (MIG): what the driver reports of a whole GPU is not the job's then.
[[nodiscard]] bool is_divided(const RuleContext& context, const std::string& gpu);

/// Returns values for remedies: "gpu" is what nvidia-smi -i takes.
[[nodiscard]] JobValues gpu_values(const RuleContext& context, const std::string& gpu);
/// "gpu2 (0000:c1:00.0)", or "gpu2 (0000:c1:00.0, divided by MIG)".
[[nodiscard]] std::string gpu_name(const RuleContext& context, const std::string& gpu);

/// A fact about one GPU, of the whole run.
[[nodiscard]] Finding gpu_finding(const RuleContext& context, const std::string& gpu, const JobValues& more = {});
/// Adds the value by which remedies keep jobs of the batch system away from the node.
[[nodiscard]] JobValues bad_for_jobs(const RuleContext& context, JobValues more = {});

/// Returns the interval from the first to the last moment in which the series is above the level; empty if it never is.
[[nodiscard]] Interval active_phase(std::span<const double> series, double level);

/// What held one GPU back while it worked.
struct HeldBack {
  std::string gpu;
  std::string metric;           // the reason that was seen most
  double busy_seconds = 0;      // all in which it worked and the reasons are known
  double seconds = 0;           // of these with one of the reasons
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

/// Interval, instance, evidence, confidence and cost of what held a GPU back.
[[nodiscard]] Finding held_back_finding(const RuleContext& context, const HeldBack& held, const JobValues& more = {});

}  // namespace reveal
