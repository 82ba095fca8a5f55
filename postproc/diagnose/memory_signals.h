// How a job uses memory, by counters of the processor and of the memory controllers where they were counted:
// instructions per cycle, cycles that waited, accesses to another socket, bandwidth.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "postproc/diagnose/signals.h"

namespace reveal {

/// Part of the cycles that waited: for data missing in the L3 if that is counted, else for anything.
[[nodiscard]] std::optional<MetricSeries> stall_ratio(const RuleContext& context);
/// Part of the accesses beyond the last-level cache that another socket answered.
[[nodiscard]] std::optional<MetricSeries> remote_share(const RuleContext& context);

/// One of the four that was measured, in an interval, and outside of it where there is an outside.
struct MemoryPicture {
  MetricSeries signal;
  double inside = 0;
  std::optional<double> outside;
};
[[nodiscard]] std::vector<MemoryPicture> memory_picture(const RuleContext& context, Interval at);
/// "0.8 instructions per cycle (otherwise 1.4), ...".
[[nodiscard]] std::string in_words(std::span<const MemoryPicture> picture);
[[nodiscard]] Evidence evidence_of(const RuleContext& context, const MemoryPicture& picture, Interval at);

/// "2G", "1536M": as sbatch --mem takes it, which accepts no fractions.
[[nodiscard]] std::string slurm_memory(double bytes);

/// The smallest limit at which its control group was in the interval; nothing if none was.
struct MemoryLimit {
  std::string group;
  double bytes = 0;
};
[[nodiscard]] std::optional<MemoryLimit> limit_met(const RuleContext& context, Interval at);

/// Whether the node has so much memory that a job may ask for it; true where it is not known.
[[nodiscard]] bool fits_on_node(const RuleContext& context, double bytes);

/// A level of the job's own control group; empty where it was not measured, or where others are in the group, too.
[[nodiscard]] std::span<const double> level_of_job(const RuleContext& context, std::string_view metric);

}  // namespace reveal
