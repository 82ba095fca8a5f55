// Signals several rules share: how much the job waited, how wide it runs, and how facts become Evidence.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "postproc/diagnose/excursion.h"
#include "postproc/diagnose/rule.h"

namespace reveal {

/// Values of a metric, one per grid step, in a unit a person reads.
struct MetricSeries {
  std::string metric;
  std::string unit;  // "cpus", "bytes/s", "processes"
  std::vector<double> values;
};

/// Sum of a counter's channels per second, times `scale` ("cpus" from nanoseconds: 1e-9). Nothing if not measured.
[[nodiscard]] std::optional<MetricSeries> rate(const RuleContext& context, std::string_view metric, double scale,
                                               std::string_view unit, std::string_view role = {});
/// One channel of a counter per second.
[[nodiscard]] MetricSeries channel_rate(const RuleContext& context, std::size_t channel, double scale,
                                        std::string_view unit);
/// Channels of a metric of interfaces by which data leave the node. The loopback is none; nor are bonds, bridges and
/// VLANs where some interface has hardware of its own: they count what the interfaces below them count.
[[nodiscard]] std::vector<std::size_t> channels_that_lead_out(const RuleContext& context, std::string_view metric);
/// Bytes per second of net.rx_bytes or net.tx_bytes through these interfaces. Nothing if not measured.
[[nodiscard]] std::optional<MetricSeries> traffic_of_interfaces(const RuleContext& context, std::string_view metric);
/// Sum of a gauge's channels.
[[nodiscard]] std::optional<MetricSeries> level(const RuleContext& context, std::string_view metric,
                                                std::string_view unit);

/// "cpu7"; on large hosts the cpus without a channel of their own share one, "other_cpus", and so do those of a large
/// job, "job_cpus" (core/sampler/per_cpu.h).
[[nodiscard]] bool is_one_cpu(std::string_view instance) noexcept;

/// Processes that are measured one by one (core/job/process_slots.h). With more, a sum over them is not the job's.
inline constexpr double kMeasuredProcesses = 16;
/// Whether the job had no more processes than these in the interval; true where their number was not measured.
[[nodiscard]] bool measures_every_process(const RuleContext& context, Interval at);

/// Whether the job's control group counts the bytes that programs write through the page cache: groups of version 1 do
/// not. https://docs.kernel.org/admin-guide/cgroup-v1/blkio-controller.html
[[nodiscard]] bool group_counts_cached_writes(const RuleContext& context);

/// Throws Unavailable("not measured: WHAT") when it is not there.
[[nodiscard]] MetricSeries needed(std::optional<MetricSeries> signal, std::string_view what);

/// Run-queue wait of the job in cpus (seconds waited per second): the job's own where measured, else the node's share
/// of time in which some task waited.
[[nodiscard]] std::optional<MetricSeries> cpu_wait(const RuleContext& context);

/// Waits that the kernel counts as pressure (PSI): time in which some tasks waited, or (full) no task could run.
/// https://docs.kernel.org/accounting/psi.html
enum class Pressure : std::uint8_t { io_some, io_full, memory_some };
/// In s/s: of the job where its control group counts it, else of the node, where other processes may wait, too.
[[nodiscard]] std::optional<MetricSeries> pressure_wait(const RuleContext& context, Pressure kind);

/// A signal inside an interval against outside of all `excluded` ones.
struct InsideOutside {
  double inside = 0;
  double outside = 0;
  double score = 0;  // difference in standard deviations of outside windows' means; 0 if the outside is too short

  [[nodiscard]] double excess() const { return inside - outside; }
  /// Part of the outside level that is missing inside, negative for a rise; 0 where there is none to be missing.
  [[nodiscard]] double fall() const { return outside > 0 ? 1 - inside / outside : 0; }
};

/// Where a process has very many threads, only the main one is measured (core/job/process_slots.h). If it does its part
/// of the work, it stands for the others, which get the same cpus in turn: the wait of all of them over the run, in
/// s/s. Nothing where all threads are measured, or where the main one only waits for the others.
[[nodiscard]] std::optional<double> estimated_wait(const RuleContext& context, const std::string& process);

/// The mean over the second around each sample: events of a moment and processes that are stopped and continued several
/// times a second become a level.
[[nodiscard]] std::vector<double> over_seconds(const RuleContext& context, std::span<const double> series);

/// Nothing when the signal is missing inside or outside, or altogether. `window`: values that are averaged for the
/// score, at most; those of five seconds where it is not given.
[[nodiscard]] std::optional<InsideOutside> inside_outside(std::span<const double> series, Interval at,
                                                          std::span<const Interval> excluded, std::size_t window);
[[nodiscard]] std::optional<InsideOutside> inside_outside(const RuleContext& context, const MetricSeries& signal,
                                                          Interval at, std::span<const Interval> excluded);
[[nodiscard]] std::optional<InsideOutside> inside_outside(const RuleContext& context,
                                                          const std::optional<MetricSeries>& signal, Interval at,
                                                          std::span<const Interval> excluded);

[[nodiscard]] Evidence evidence_of(const RuleContext& context, const MetricSeries& signal, const InsideOutside& levels,
                                   Interval at);

/// A number of the whole run.
[[nodiscard]] Evidence fact(const RuleContext& context, std::string metric, std::string instance, std::string feature,
                            double observed, std::optional<double> expected, std::string unit);
/// The same, from the configuration snapshot.
[[nodiscard]] Evidence snapshot_fact(const RuleContext& context, std::string metric, std::string instance,
                                     double observed, std::optional<double> expected, std::string unit);

/// The general detectors that saw the same interval, and their score; nothing when none did.
struct Confirmation {
  std::vector<Method> methods;
  double score = 0;
};
[[nodiscard]] std::optional<Confirmation> confirmed_by(const Detection& detection, Interval at);

/// Job's run time on this node.
[[nodiscard]] double job_seconds(const RuleContext& context);

/// `found`, or, where it is empty, the whole run if the mean of each quarter is at least `least`: a disturbance that
/// lasts from the first second to the last has no baseline to compare with, and one burst is not the whole run.
[[nodiscard]] std::vector<Excursion> or_whole_run(const RuleContext& context, std::span<const double> series,
                                                  double least, std::vector<Excursion> found);

/// The materiality gate of all rules that estimate lost time: below it a true effect is a notice.
[[nodiscard]] Severity severity_of_loss(double seconds, double percent, double min_seconds, double min_percent);

/// Adds the value by which remedies keep jobs of the batch system away from the node.
[[nodiscard]] JobValues bad_for_jobs(const RuleContext& context, JobValues more = {});

}  // namespace reveal
