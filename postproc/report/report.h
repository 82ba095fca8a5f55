// The report of one job as data; report.json, report.txt and report.html are three functions of one `const Report&`.
// Rendering computes nothing: everything in the text and in the HTML is in the JSON, too.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hdf5schema/trace.h"
#include "postproc/detect/episode.h"
#include "postproc/diagnose/finding.h"
#include "postproc/diagnose/locality_map.h"
#include "postproc/diagnose/main_threads.h"
#include "postproc/diagnose/mute.h"
#include "postproc/history/history.h"
#include "postproc/peers/across_nodes.h"
#include "postproc/peers/peers.h"

namespace reveal {

inline constexpr std::string_view kReportSchema = "reveal.report/1";

/// Two reports of one job share some of them, also where one of the reports was made without a late node.
inline constexpr std::size_t kMostTraceIds = 16;

struct ReportJob {
  std::string id, array, het, name, user, cluster, command, state;
  std::optional<int> restart, exit_code;
  std::optional<double>
      ran_seconds;  // run time of the command, if its launcher measured it; a trace begins later and ends earlier
  std::optional<double> oom_kills;     // processes that the kernel's out-of-memory killer ended meanwhile
  std::string run_key;                 // the command, hashed; "" when unknown
  std::vector<std::string> trace_ids;  // the smallest ids of its traces, sorted
  std::vector<std::string> nodes;
  std::vector<std::string> nodes_missing;  // nodes of the job without a usable trace
  std::int64_t begin_utc_ns = 0;
  std::int64_t end_utc_ns = 0;
  std::vector<std::pair<std::string, std::string>> tags;
  bool operator==(const ReportJob&) const = default;
};

struct NodeCoverage {
  std::vector<std::string> nodes;
  std::optional<double> samples_expected, samples_present, clock_error_seconds;
  std::vector<Coverage> probes;
  std::string note;  // "trace cut off after 62 s: collector was killed", ...
  bool operator==(const NodeCoverage&) const = default;
};

struct NodeOverhead {
  std::string node;
  std::optional<double> cpu_percent_of_core, bytes_per_second, late_ticks, channels;
  std::string reason;  // why a number above is unknown
  bool operator==(const NodeOverhead&) const = default;
};

/// Intervals in which the collector of a node read some probes faster, because the rates of many counters were unusual.
struct NodeFasterReading {
  std::string node;
  double intervals = 0;
  double seconds = 0;   // all of them
  double readings = 0;  // additional ones
  TimeSpan from_first_to_last;
  std::vector<std::string> probes;
  bool operator==(const NodeFasterReading&) const = default;
};

/// The resources that a job used, on one node or on all of them. `notes`, by the JSON key of the number: its source, or
/// why it is unknown.
struct JobTotals {
  std::string node;               // "": the whole job
  double nodes = 1;               // that were measured
  std::optional<double> seconds;  // measured
  std::optional<double> cpu_seconds, cpus_owned;
  std::optional<double> cpu_used_share;             // share of the cpus owned
  std::optional<double> memory_peak, memory_limit;  // memory of the node with the highest peak
  std::optional<double> read_bytes, written_bytes, network_bytes;
  std::optional<double> wait_share;  // seconds in each second in which tasks were ready and had no cpu, over all tasks
  std::optional<double> steps, energy_joules;
  std::optional<double> gpus;                               // GPUs of the job that were measured
  std::optional<double> gpu_used_share;                     // mean utilization of these
  std::optional<double> gpu_memory_peak, gpu_memory_total;  // memory of the GPU with the highest peak
  std::optional<double> gpu_energy_joules;
  std::optional<double> iteration_seconds;  // estimated from the job's rhythm, where no steps were counted
  std::optional<double> instructions, cycles, stalled_cycles, cache_misses,
      remote_reads;                      // by the processors' counters
  std::optional<double> memory_traffic;  // in bytes, of the node's memory controllers
  std::map<std::string, std::string> notes;
  bool operator==(const JobTotals&) const = default;
};

/// In the note of `memory_peak` where the job's control group reached its limit only together with memory that this
/// peak leaves out.
inline constexpr std::string_view kLimitReachedWithCache =
    "with cached files and memory of the kernel, the limit was reached";

/// Every number of the totals, with its names.
struct TotalsNumber {
  const char* key;  // in report.json
  std::optional<double> JobTotals::*value;
  std::string_view unit;                              // "": the key names it, or it is a plain count
  std::string_view word;                              // in sentences about numbers that are not known; "": in none
  std::string_view metric, metric_unit, metric_help;  // OpenMetrics

  [[nodiscard]] constexpr bool is_of_gpus() const { return std::string_view(key).starts_with("gpu"); }
};
inline constexpr TotalsNumber kTotalsNumbers[] = {
    {"seconds", &JobTotals::seconds, "", "", "reveal_job_measured_seconds", "seconds", "Time that was measured."},
    {"cpu_seconds", &JobTotals::cpu_seconds, "", "cpu", "reveal_job_cpu_seconds", "seconds",
     "Processor time of the job."},
    {"cpus_owned", &JobTotals::cpus_owned, "cpus", "", "reveal_job_cpus", "", "Processors of the job."},
    {"cpu_used_share", &JobTotals::cpu_used_share, "ratio", "", "reveal_job_cpu_used_ratio", "ratio",
     "Used part of the processors' time."},
    {"memory_peak", &JobTotals::memory_peak, "bytes", "memory", "reveal_job_memory_peak_bytes", "bytes",
     "Peak memory of the node with the highest peak."},
    {"memory_limit", &JobTotals::memory_limit, "bytes", "", "reveal_job_memory_limit_bytes", "bytes",
     "Memory limit on that node."},
    {"read_bytes", &JobTotals::read_bytes, "", "read", "reveal_job_read_bytes", "bytes", "Read from storage."},
    {"written_bytes", &JobTotals::written_bytes, "", "written", "reveal_job_written_bytes", "bytes",
     "Written to storage."},
    {"network_bytes", &JobTotals::network_bytes, "", "network", "reveal_job_network_bytes", "bytes",
     "Sent and received over networks."},
    {"wait_share", &JobTotals::wait_share, "seconds per second, summed over tasks", "waiting",
     "reveal_job_run_queue_wait_ratio", "ratio", "Seconds in each second that ready tasks waited."},
    {"steps", &JobTotals::steps, "backward passes of PyTorch: one or several for each training step", "steps",
     "reveal_job_training_steps", "", "Training steps that were counted."},
    {"iteration_seconds", &JobTotals::iteration_seconds, "", "", "reveal_job_iteration_seconds", "seconds",
     "Estimated time of each iteration, by its rhythm."},
    {"energy_joules", &JobTotals::energy_joules, "", "energy", "reveal_job_energy_joules", "joules",
     "Energy of the nodes during the job."},
    {"gpus", &JobTotals::gpus, "GPUs", "", "reveal_job_gpus", "", "GPUs of the job that were measured."},
    {"gpu_used_share", &JobTotals::gpu_used_share, "ratio", "GPU use", "reveal_job_gpu_used_ratio", "ratio",
     "Mean utilization of these GPUs."},
    {"gpu_memory_peak", &JobTotals::gpu_memory_peak, "bytes", "GPU memory", "reveal_job_gpu_memory_peak_bytes", "bytes",
     "Peak memory of the GPU with the highest peak."},
    {"gpu_memory_total", &JobTotals::gpu_memory_total, "bytes", "", "reveal_job_gpu_memory_total_bytes", "bytes",
     "Memory of that GPU."},
    {"gpu_energy_joules", &JobTotals::gpu_energy_joules, "", "GPU energy", "reveal_job_gpu_energy_joules", "joules",
     "Energy of these GPUs during the job."},
    {"instructions", &JobTotals::instructions, "", "", "reveal_job_instructions", "",
     "Instructions, by the processors' counters."},
    {"cycles", &JobTotals::cycles, "", "", "reveal_job_cycles", "", "Cycles, by the processors' counters."},
    {"stalled_cycles", &JobTotals::stalled_cycles, "", "", "reveal_job_stalled_cycles", "", "Cycles without progress."},
    {"cache_misses", &JobTotals::cache_misses, "", "", "reveal_job_cache_misses", "", "Misses of the last cache."},
    {"remote_reads", &JobTotals::remote_reads, "", "", "reveal_job_remote_reads", "", "Reads from another NUMA node."},
    {"memory_traffic", &JobTotals::memory_traffic, "", "", "reveal_job_memory_traffic_bytes", "bytes",
     "Traffic of the nodes' memory controllers."},
};

/// An episode in words and clock times, ready to print.
struct ReportEpisode {
  std::string node;
  std::size_t first_window = 0, last_window = 0;
  TimeSpan span;
  std::vector<Method> methods;
  int agreement = 0;
  double score = 0;
  Tier tier = Tier::none;
  std::vector<Label> labels;
  Subsystem subsystem = Subsystem::cpu;
  struct Reason {
    std::string metric, instance, feature, unit;
    double z = 0;
    std::optional<double> observed, expected;
    bool operator==(const Reason&) const = default;
  };
  std::vector<Reason> reasons;
  std::string claim;
  /// Why a single detector scored it: its channels with their shares, negative where a channel lowers the score.
  struct Contribution {
    std::string metric, instance;
    double share = 0;
    bool operator==(const Contribution&) const = default;
  };
  struct DetectorView {
    Method method = Method::interval_scan;
    std::vector<Contribution> channels;
    bool operator==(const DetectorView&) const = default;
  };
  std::vector<DetectorView> detectors;
  bool operator==(const ReportEpisode&) const = default;
};

/// Time in which intervals of a subsystem were anomalous, a detector found them, or a metric was among their reasons,
/// added up over the nodes.
struct AnomalousTime {
  enum class By : std::uint8_t { subsystem, detector, metric };
  By by = By::subsystem;
  std::string name;
  double seconds = 0;
  double percent = 0;  // share of the time of all subsystems
  bool operator==(const AnomalousTime&) const = default;
};
[[nodiscard]] std::string_view name_of(AnomalousTime::By) noexcept;
[[nodiscard]] std::optional<AnomalousTime::By> anomalous_by_of(std::string_view) noexcept;

enum class VerdictStatus : std::uint8_t { healthy, notice, finding, insufficient_data };

struct Verdict {
  VerdictStatus status = VerdictStatus::healthy;
  std::string primary;      // rule id or ""
  std::string sentence;     // one line
  bool job_failed = false;  // ended by a signal, with another exit status than 0, or stopped by its batch system
  bool operator==(const Verdict&) const = default;
};

/// One evidence channel for the timeline, downsampled to at most a few thousand points.
struct TimelineChannel {
  std::string node, name, unit;
  double begin_seconds = 0;  // since the job's begin
  double step_seconds = 0.1;
  std::vector<double> values;      // NaN: gap
  std::optional<double> expected;  // value expected by the finding that shows this channel as evidence
  bool operator==(const TimelineChannel&) const = default;
};

/// Something that happened: a tick on the timeline.
struct ReportMark {
  enum class Kind : std::uint8_t { device, memory, configuration, service, process, step, training };
  Kind kind = Kind::process;
  std::string node;  // "": of several nodes, which the text names
  TimeSpan span;     // begin and end are the same for an instant
  std::string text;
  bool operator==(const ReportMark&) const = default;
};
[[nodiscard]] std::string_view name_of(ReportMark::Kind) noexcept;
[[nodiscard]] std::optional<ReportMark::Kind> mark_kind_of(std::string_view) noexcept;

/// A part of the job in which its processes on a node mainly did one thing.
struct JobPhase {
  enum class Kind : std::uint8_t { computing, few_cpus, reading, writing, communicating, waiting, not_measured };
  Kind kind = Kind::not_measured;
  TimeSpan span;
  bool operator==(const JobPhase&) const = default;
};
[[nodiscard]] std::string_view name_of(JobPhase::Kind) noexcept;
[[nodiscard]] std::optional<JobPhase::Kind> phase_kind_of(std::string_view) noexcept;

/// The phases of the job on one node, or on several nodes with the same ones.
struct NodePhases {
  std::vector<std::string> nodes;
  double resolution_seconds = 0;       // length of the parts that were judged
  std::vector<JobPhase> phases;        // each begins where the one before ends
  std::int64_t first_step_utc_ns = 0;  // begin of the first training step; 0: none was recorded
  std::int64_t last_step_utc_ns = 0;   // end of the last one
  std::string note;                    // why there are no phases, or the activities that were not measured
  bool operator==(const NodePhases&) const = default;
};

struct Report {
  std::string report_id;
  std::string tool_version;  // version of the reveal that made it
  std::string directory;     // name of the job's directory
  std::int64_t created_utc_ns = 0;
  bool partial = false;
  std::string supersedes;
  bool privileged = false, shared_node = false;
  ReportJob job;
  std::vector<NodeCoverage> coverage;
  std::vector<JobTotals> totals;  // the whole job first, then node by node
  std::vector<NodeOverhead> overhead;
  std::vector<NodeFasterReading> faster;  // nodes without one are not here
  std::vector<LocalityMap> locality;      // maps of the first nodes
  std::vector<PythonThread> python;       // likewise; for the job's owner only
  Verdict verdict;
  std::vector<Finding> findings;  // primary first
  std::vector<ReportEpisode> episodes;
  std::vector<AnomalousTime> anomalous;  // time of all episodes, also of those left out
  PeerComparison comparison;             // nodes with each other
  HistoryComparison history;             // this run with earlier ones
  std::vector<MutedFinding> muted;       // by reveal.conf: none of the findings
  std::vector<NotChecked> not_checked;
  std::map<std::string, double> omitted;  // numbers of items cut to stay small: {"episodes": 12}
  std::vector<TimelineChannel> timeline;
  std::vector<ReportMark> marks;                           // by time
  std::vector<NodePhases> phases;                          // those of most nodes first
  std::vector<MetricAcrossNodes> across;                   // a few metrics of several nodes
  std::vector<std::pair<std::string, std::string>> files;  // {"trace n01", "n01.h5"}
  bool operator==(const Report&) const = default;
};

enum class TextPart : std::uint8_t {
  page,        // one terminal page: the verdict, one diagnosis, used resources and measurements
  everything,  // also intervals without a known cause, missing measurements and checks, with reasons
  findings,    // only the findings, each in full
  episodes,    // only the anomalous intervals, all of them
};

struct TextStyle {
  int width = 80;
  bool colour = false;
  bool blocks = false;  // the terminal shows UTF-8: courses are drawn beside numbers
  TextPart part = TextPart::page;
  std::string directory;  // directory of the job, as the reader would type it; "" if there is none
};

[[nodiscard]] std::string render_json(const Report&);
[[nodiscard]] std::string render_text(const Report&, const TextStyle& = {});
/// The end of a run: six lines at most.
[[nodiscard]] std::string render_brief(const Report&, const TextStyle& = {});
[[nodiscard]] std::string render_html(const Report&);

[[nodiscard]] std::string_view name_of(VerdictStatus) noexcept;
[[nodiscard]] std::optional<VerdictStatus> verdict_status_of(std::string_view) noexcept;

/// Reads report.json back (for `show`); throws Error for another schema.
[[nodiscard]] Report parse_report(const std::string& json);
/// More than any report.json has.
inline constexpr std::size_t kLargestReport = std::size_t{64} << 20;

}  // namespace reveal
