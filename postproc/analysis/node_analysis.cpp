#include "postproc/analysis/node_analysis.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <span>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/node_list.h"
#include "hdf5schema/basics/text.h"
#include "hdf5schema/version.h"
#include "postproc/analysis/channel_totals.h"
#include "postproc/analysis/estimated_iterations.h"
#include "postproc/analysis/faster_readings.h"
#include "postproc/analysis/job_phases.h"
#include "postproc/analysis/job_totals.h"
#include "postproc/analysis/node_marks.h"
#include "postproc/analysis/overview.h"
#include "postproc/analysis/sufficiency.h"
#include "postproc/detect/pipeline.h"
#include "postproc/detect/scan/scan_block.h"
#include "postproc/diagnose/job_progress.h"
#include "postproc/diagnose/locality_map.h"
#include "postproc/diagnose/lossy_paths.h"
#include "postproc/diagnose/main_threads.h"
#include "postproc/diagnose/numa_layout.h"
#include "postproc/diagnose/run_rules.h"
#include "postproc/peers/node_pair.h"
#include "postproc/peers/transient_straggler.h"
#include "postproc/report/anomalous_time.h"
#include "postproc/report/wording.h"
#include "postproc/telemetry/job.h"
#include "postproc/telemetry/last_collectives.h"
#include "postproc/telemetry/metric_facts.h"
#include "postproc/telemetry/python_samples.h"
#include "postproc/telemetry/snapshot_facts.h"
#include "postproc/words/lists.h"
#include "postproc/words/quantity.h"

namespace reveal {
namespace {

constexpr std::size_t kTimelinePoints = 1200;
constexpr std::size_t kTimelineChannels = 8;
constexpr std::size_t kMostNodeEpisodes = 40;
constexpr std::size_t kMostReasons = 10;
constexpr std::size_t kFewTimelinePoints = 120;  // points of a node without a finding that is not among the first
constexpr std::size_t kNodesWithAllTrends = 64;  // first nodes of a job

/// The channel itself, or the sum over all instances where the evidence is about the whole node.
std::optional<TimelineChannel> timeline_of(const Telemetry& telemetry, const std::string& metric,
                                           const std::string& instance, const Evidence* evidence) {
  std::vector<std::size_t> same;
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    const Channel& channel = telemetry.channels[i];
    if (channel.metric != metric) continue;
    if (channel.instance == instance) {
      same = {i};
      break;
    }
    same.push_back(i);
  }
  if (same.empty()) return std::nullopt;
  const Channel& first = telemetry.channels[same.front()];
  const auto [unit, factor] = shown_unit(first, telemetry.step_seconds);
  TimelineChannel line{.node = telemetry.node,
                       .name = same.size() == 1 ? first.name() : metric,
                       .unit = unit,
                       .begin_seconds = 0,
                       .step_seconds = telemetry.step_seconds,
                       .values = std::vector<double>(telemetry.samples, std::numeric_limits<double>::quiet_NaN())};
  for (const std::size_t channel : same) {
    const auto series = telemetry.series(channel);
    for (std::size_t t = 0; t < series.size(); ++t) {
      if (std::isnan(series[t])) continue;
      line.values[t] = (std::isnan(line.values[t]) ? 0 : line.values[t]) + series[t] * factor;
    }
  }
  // A rule may have taken the largest of several instances, and not their sum.
  const bool alone = same.size() == 1 && first.instance == instance;
  if (evidence != nullptr && alone && evidence->unit == unit) line.expected = evidence->expected;
  downsample(line, kTimelinePoints);
  for (double& value : line.values) value = four_digits(value);
  return line;
}

std::vector<TimelineChannel> timeline(const Telemetry& telemetry, const std::vector<Finding>& findings,
                                      const Detection& detection) {
  std::vector<TimelineChannel> lines;
  std::set<std::string> taken;
  const auto add = [&](const std::string& metric, const std::string& instance, const Evidence* evidence = nullptr) {
    if (lines.size() >= kTimelineChannels) return;
    auto line = timeline_of(telemetry, metric, instance, evidence);
    if (line && taken.insert(line->name).second) lines.push_back(*std::move(line));
  };
  for (const Finding& finding : findings) {
    for (const Evidence& evidence : finding.evidence) add(evidence.metric, evidence.instance, &evidence);
    for (const std::string& instance : finding.instances) add("cpu.user", instance);
  }
  for (const MetricFact& fact : metric_facts()) {
    if (fact.usual_timeline) add(std::string(fact.metric), "");
  }
  for (const Episode& episode : detection.episodes) {
    if (episode.tier == Tier::none) continue;
    for (std::size_t i = 0; i < std::min<std::size_t>(2, episode.reasons.size()); ++i) {
      const Channel& channel = telemetry.channels.at(episode.reasons[i].channel);
      add(channel.metric, channel.instance);
    }
  }
  return lines;
}

ReportEpisode report_episode(const Episode& episode, const Telemetry& telemetry, double step_seconds) {
  const auto at = [&](std::size_t sample) {
    return telemetry.begin_utc_ns + std::llround(static_cast<double>(sample) * step_seconds * 1e9);
  };
  ReportEpisode out{.node = telemetry.node,
                    .first_window = episode.first_window,
                    .last_window = episode.last_window,
                    .span = {at(episode.begin), at(episode.end)},
                    .methods = episode.methods,
                    .agreement = episode.agreement,
                    .score = episode.score,
                    .tier = episode.tier,
                    .labels = episode.labels,
                    .subsystem = episode.subsystem,
                    .reasons = {},
                    .claim = episode.claim,
                    .detectors = {}};
  for (const DetectorShares& view : episode.contributions) {
    out.detectors.push_back({view.method, {}});
    for (const ChannelShare& part : view.channels) {
      const Channel& channel = telemetry.channels.at(part.channel);
      out.detectors.back().channels.push_back({channel.metric, channel.instance, four_digits(part.share)});
    }
  }
  for (std::size_t i = 0; i < std::min(kMostReasons, episode.reasons.size()); ++i) {
    const Reason& reason = episode.reasons[i];
    const Channel& channel = telemetry.channels.at(reason.channel);
    out.reasons.push_back({channel.metric, channel.instance, reason.feature, unit_of(channel), reason.z,
                           reason.observed, reason.expected});
  }
  return out;
}

NodeOverhead overhead(const Telemetry& telemetry, double step_seconds, double seconds,
                      std::span<const ChannelTotals> totals) {
  NodeOverhead cost;
  cost.node = telemetry.node;
  cost.channels =
      static_cast<double>(std::count_if(telemetry.channels.begin(), telemetry.channels.end(),
                                        [](const Channel& channel) { return channel.family != "derived"; }));
  for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
    const std::string& metric = telemetry.channels[i].metric;
    const ChannelTotals& total = totals[i];
    if (total.present == 0 || seconds <= 0) continue;
    const double present_seconds = static_cast<double>(total.present) * step_seconds;
    if (metric == "self.cpu_time") cost.cpu_percent_of_core = 100 * total.sum * 1e-9 / present_seconds;
    if (metric == "self.bytes_written") {
      cost.bytes_per_second = per_second(telemetry.channels[i]) ? total.sum / present_seconds : total.last / seconds;
    }
    if (metric == "self.tick_lateness") cost.late_ticks = static_cast<double>(total.late);
  }
  return cost;
}

/// "4710_3" from the environment of the job's processes, under reveal-run in a batch script; "" outside an array job.
std::string array_task_of(const NodeTrace& trace) {
  for (const Snapshot* snapshot : {&trace.begin, &trace.end}) {
    const auto array = fact_in(*snapshot, "env.SLURM_ARRAY_JOB_ID");
    const auto task = fact_in(*snapshot, "env.SLURM_ARRAY_TASK_ID");
    if (array && task && parse_int(*array) && parse_int(*task)) return fmt::format("{}_{}", *array, *task);
  }
  return "";
}

void fill_job(const NodeTrace& trace, double seconds, Report& part) {
  const Telemetry& telemetry = trace.telemetry;
  ReportJob& job = part.job;
  job.id = trace.header.job_id;
  if (!job.id.empty()) job.array = array_task_of(trace);
  job.name = trace.header.job_name;
  job.user = trace.header.user;
  job.cluster = trace.header.cluster;
  job.command = trace.header.command;
  job.run_key = trace.header.run_key;
  if (!trace.header.trace_id.empty()) job.trace_ids = {trace.header.trace_id};
  job.nodes = {telemetry.node};
  job.tags = trace.header.tags;
  job.begin_utc_ns = telemetry.begin_utc_ns;
  job.end_utc_ns = telemetry.begin_utc_ns + std::llround(seconds * 1e9);
}

/// Whether the collector could see more than its user, and whether others may run on the node.
void fill_mode(const Snapshot& snapshot, const Snapshot& end, Report& part) {
  constexpr std::uint64_t kSysAdmin = 1ULL << 21;
  constexpr std::uint64_t kPerfmon = 1ULL << 38;
  std::uint64_t capabilities = 0;
  const std::string_view text = fact_in(snapshot, "reveal.capabilities").value_or("");
  std::from_chars(text.data(), text.data() + text.size(), capabilities, 16);
  part.privileged = (capabilities & (kSysAdmin | kPerfmon)) != 0;
  const auto owned = parse_cpu_list(fact_in(snapshot, "job.cpus_owned").value_or("")).size();
  const auto all = parse_int(fact_in(snapshot, "cpu.count").value_or(""));
  part.shared_node = (owned > 0 && all && static_cast<std::int64_t>(owned) < *all) ||
                     !fact_in(end, "node.other_jobs").value_or("").empty();
}

/// Returns the OOM kills of the job's control groups, else those of the node; nothing if neither is counted.
std::optional<double> oom_kills(const Telemetry& telemetry, std::span<const ChannelTotals> totals) {
  for (const std::string_view metric : {"group.killed_for_memory", "vmstat.oom_kill"}) {
    std::optional<double> most;  // a group counts those of the groups below it
    for (std::size_t i = 0; i < telemetry.channels.size(); ++i) {
      if (telemetry.channels[i].metric != metric || totals[i].present == 0) continue;
      most = std::max(most.value_or(0), std::round(totals[i].sum));  // added up from rates
    }
    if (most) return most;
  }
  return std::nullopt;
}

LocalityMap where_it_ran(const Telemetry& telemetry, const Snapshot& begin, const Snapshot& end) {
  const NumaLayout layout = numa_layout(begin.empty() ? end : begin, "");
  LocalityMap map = locality_map(begin, end, process_places(telemetry, layout));
  map.node = telemetry.node;
  return map;
}

}  // namespace

Snapshot compared_facts(const NodeTrace& trace) {
  std::set<std::string> names;
  for (const Snapshot* snapshot : {&trace.begin, &trace.end}) {
    for (const auto& [key, value] : *snapshot) {
      if (key.starts_with("gpu.gpu") && key.ends_with(".name") && !value.empty()) names.insert(value);
    }
  }
  Snapshot facts = trace.begin;
  if (!names.empty()) facts.emplace_back(kGpuModels, listed(std::vector<std::string>(names.begin(), names.end())));
  return facts;
}

namespace {

/// The input of a summary. Detection and totals use the trace's own samples, rules the longer steps of the overview.
struct NodeView {
  const NodeTrace& trace;
  std::size_t samples = 0;
  const Overview& overview;
  const Detection& detection;
  const Detection& detection_on_steps;
  const TraceTotals& totals;
  const std::vector<PythonSamples>& python;
};

/// The same episodes on the samples that rules look at.
Detection on_longer_steps(Detection detection, std::size_t factor) {
  for (Episode& episode : detection.episodes) {
    episode.begin /= factor;
    episode.end = (episode.end + factor - 1) / factor;
  }
  return detection;
}

/// The channels that name an episode of this node: their trends here and on its peers show whether it is the job's.
std::set<std::string> channels_of_episodes(const std::vector<ReportEpisode>& episodes) {
  std::set<std::string> channels;
  for (const ReportEpisode& episode : episodes) {
    for (std::size_t i = 0; i < std::min(kPhaseReasons, episode.reasons.size()); ++i) {
      channels.insert(base_metric(channel_name(episode.reasons[i].metric, episode.reasons[i].instance)));
    }
  }
  return channels;
}

/// A report draws few lines, and asks few nodes for the trends of all channels. Each node knows how many there are.
void leave_out_what_no_report_reads(NodeSummary& summary) {
  const std::vector<std::string> nodes = expand_node_list(summary.expected_nodes);
  const auto index = static_cast<std::size_t>(std::find(nodes.begin(), nodes.end(), summary.node) - nodes.begin());
  if (index == nodes.size()) return;
  Report& part = summary.part;
  const bool reported = std::any_of(part.findings.begin(), part.findings.end(),
                                    [](const Finding& finding) { return finding.severity >= Severity::notice; });
  // A finding of the merge may name any node, and draws its lines first: those of small jobs stay whole.
  if (!reported && index >= kMostTimelines) {
    for (TimelineChannel& line : part.timeline) downsample(line, kFewTimelinePoints);
  }
  const std::size_t stride = (nodes.size() + kNodesWithAllTrends - 1) / kNodesWithAllTrends;
  if (index % stride == 0) return;
  std::set<std::string> channels = channels_of_episodes(part.episodes);
  channels.emplace(kOwnTime);
  for (const WorkMetric& work : kWorkMetrics) channels.emplace(work.metric);  // the cost of waiting for a node
  channels.emplace(kSentByNode);
  keep_trends_of(channels, summary.profile);
}

/// The clearest ones, and the time of all.
void add_episodes(const Detection& detection, const Telemetry& telemetry, double step_seconds, Report& part) {
  for (const Episode& episode : detection.episodes) {
    part.episodes.push_back(report_episode(episode, telemetry, step_seconds));
  }
  part.anomalous = anomalous_time(part.episodes);
  if (part.episodes.size() <= kMostNodeEpisodes) return;
  part.omitted["episodes"] = static_cast<double>(part.episodes.size() - kMostNodeEpisodes);
  part.episodes.resize(kMostNodeEpisodes);
}

NodeCoverage coverage_of(const NodeView& view) {
  const NodeTrace& trace = view.trace;
  NodeCoverage coverage;
  coverage.nodes = {trace.telemetry.node};
  coverage.samples_expected = trace.samples_expected;
  coverage.samples_present = trace.samples_present;
  coverage.clock_error_seconds = trace.clock_error_seconds;
  coverage.probes = trace.coverage;
  std::vector<std::string> notes = trace.notes;
  if (!trace.complete) {
    const double seconds = static_cast<double>(view.samples) * trace.telemetry.step_seconds;
    notes.insert(notes.begin(), fmt::format("trace cut off after {:.1f} s: the collector did not close it", seconds));
  }
  if (view.overview.factor() > 1) {
    notes.push_back(fmt::format("long job: rules used means of {:.3g} s, the detectors used all samples",
                                view.overview.telemetry().step_seconds));
  }
  coverage.note = joined(notes, "; ");
  return coverage;
}

/// The parts that no setting of a rule changes.
NodeSummary measured(const NodeView& view) {
  const NodeTrace& trace = view.trace;
  const Telemetry& telemetry = view.overview.telemetry();
  const double step_seconds = trace.telemetry.step_seconds;
  NodeSummary summary;
  summary.node = telemetry.node;
  summary.tool_version = REVEAL_VERSION;
  summary.complete = trace.complete;
  summary.seconds = static_cast<double>(view.samples) * step_seconds;
  summary.insufficient = view.detection.insufficient;
  if (summary.insufficient.empty()) summary.insufficient = why_not_enough(trace, view.totals.channels, view.samples);
  summary.boot_id = fact_in(trace.begin, "kernel.boot_id").value_or("");
  summary.addresses = addresses_in(trace.begin);
  summary.expected_nodes = expected_nodes(trace.begin);
  summary.profile = profile_of(telemetry, compared_facts(trace));
  summary.retransmits = retransmits_of(telemetry);
  summary.calls = call_history_of(telemetry, view.python, trace.utc_minus_monotonic_ns, last_collectives(trace.events));
  summary.collectives = collective_history_of(trace);

  Report& part = summary.part;
  fill_job(trace, summary.seconds, part);
  fill_mode(trace.begin, trace.end, part);
  part.job.oom_kills = oom_kills(telemetry, view.totals.channels);
  part.python = python_threads(view.python, telemetry.node);
  if (summary.insufficient.empty()) add_episodes(view.detection, telemetry, step_seconds, part);
  part.marks = node_marks(trace, telemetry);
  if (auto faster = faster_reading_of(trace)) part.faster = {*std::move(faster)};
  part.overhead = {overhead(telemetry, step_seconds, summary.seconds, view.totals.channels)};
  part.locality = {where_it_ran(telemetry, trace.begin, trace.end)};
  part.totals = {node_totals(trace, telemetry.channels, view.totals, summary.seconds, part.shared_node)};
  put_iterations(telemetry, part.totals.front());
  part.phases = {node_phases(trace, telemetry, view.totals, part.shared_node, part.totals.front())};
  part.partial = !trace.complete || trace.rows_lost || !trace.lost.empty();
  part.coverage = {coverage_of(view)};
  return summary;
}

NodeSummary with_findings(NodeSummary summary, const NodeView& view, const AnalysisSettings& settings) {
  const NodeTrace& trace = view.trace;
  const Telemetry& telemetry = view.overview.telemetry();
  summary.config_hash = config_hash(settings);
  summary.steps = step_history_of(trace, telemetry, EffectiveRule("stack.slow_steps", settings), view.python);
  Report& part = summary.part;
  RuleContext::Metrics asked_for;
  JobProgress progress;
  part.findings = run_rules({.telemetry = telemetry,
                             .detection = view.detection_on_steps,
                             .begin = trace.begin,
                             .end = trace.end,
                             .events = trace.events,
                             .utc_minus_monotonic_ns = trace.utc_minus_monotonic_ns,
                             .job = trace.header.job_id,
                             .command = trace.header.command,
                             .asked_for = &asked_for,
                             .progress = &progress},
                            settings, part.not_checked);
  add_main_threads(view.python, trace.utc_minus_monotonic_ns, part.findings);
  summary.damaged = in_one_sentence(lost_evidence(trace.lost, asked_for));
  part.timeline = timeline(telemetry, part.findings, view.detection_on_steps);
  leave_out_what_no_report_reads(summary);
  return summary;
}

std::vector<NodeSummary> summarise(const NodeView& view, std::span<const AnalysisSettings> settings) {
  const NodeSummary common = measured(view);
  std::vector<NodeSummary> summaries;
  summaries.reserve(settings.size());
  for (const AnalysisSettings& one : settings) summaries.push_back(with_findings(common, view, one));
  return summaries;
}

/// 400 MB of numbers: an hour of 1,400 channels at 100 ms.
constexpr std::size_t kMostHeld = 50'000'000;

bool fits_in_memory(const TraceStream& stream) {
  return stream.samples() * stream.trace().telemetry.channels.size() <= kMostHeld;
}

}  // namespace

std::size_t memory_needed(const TraceStream& stream, bool in_one_piece) {
  constexpr std::size_t kAnyway = 40'000'000;
  constexpr std::size_t kBlockSamples = 15'000;               // that are scanned at once
  constexpr std::size_t kPerScanned = 8;                      // two series of single precision
  constexpr std::size_t kOverview = 16'000'000;               // numbers at most
  constexpr std::size_t kPerStep = 2 * sizeof(TrainingStep);  // a rank's courses are as large as its steps
  constexpr std::size_t kPerCollective = sizeof(SampledCollective) + sizeof(void*);
  const std::size_t tables =
      stream.table_size<TrainingStep>() * kPerStep + stream.table_size<SampledCollective>() * kPerCollective;
  const std::size_t channels = stream.trace().telemetry.channels.size();
  if (!in_one_piece) {
    std::size_t samples = kBlockSamples;  // series of one block, then a window for each resolution
    for (std::size_t rest = stream.samples(); rest > 0; rest = rest > kBlockSamples ? rest / kCoarserScan : 0) {
      samples += std::min(rest, kBlockSamples);
    }
    const std::size_t overview = std::min(kOverview, stream.samples() / 2 * channels);
    return kAnyway + tables + (samples * channels + overview) * sizeof(double) / 4 * 3;
  }
  // A quarter of the channels counts nothing in any job seen (most often half), and takes no memory.
  const std::size_t held = stream.samples() * channels * sizeof(double) / 4 * 3;
  return kAnyway + held + tables + std::min(stream.samples(), kBlockSamples) * channels * kPerScanned;
}

std::vector<NodeSummary> analyse(const NodeTrace& trace, const JobSamples& samples,
                                 std::span<const AnalysisSettings> settings, const AnalysisHelp& help) {
  const Telemetry& job = trace.telemetry;
  const auto detecting =
      find_pipeline(settings.front().pipeline)
          .start(job, samples.count,
                 {.keep_windows = false, .in_background = help.in_background, .windows = help.windows});
  TraceTotals totals{.channels = std::vector<ChannelTotals>(job.channels.size())};
  Overview overview(job, samples.count);
  const std::size_t at_once = samples.in_one_piece ? samples.count : detecting->piece_samples();
  Telemetry piece;
  for (std::size_t begin = 0; begin < samples.count; begin += at_once) {
    samples.read(begin, std::min(at_once, samples.count - begin), piece);
    detecting->add(piece);
    totals.add(piece);
    overview.add(piece);
  }
  Detection detection = detecting->finish([&samples](std::size_t begin, std::size_t count) {
    Telemetry again;
    samples.read(begin, count, again);
    return again;
  });
  if (samples.count == 0) detection.insufficient = "no sample was recorded";
  const Detection on_steps = on_longer_steps(detection, overview.factor());
  const std::vector<PythonSamples> python = python_samples(trace.events);
  return summarise({.trace = trace,
                    .samples = samples.count,
                    .overview = overview,
                    .detection = detection,
                    .detection_on_steps = on_steps,
                    .totals = totals,
                    .python = python},
                   settings);
}

NodeSummary analyse(const NodeTrace& trace, const AnalysisSettings& settings) {
  const JobSamples samples{
      .count = trace.telemetry.samples,
      .read = [&trace](std::size_t /*begin*/, std::size_t /*count*/, Telemetry& piece) { piece = trace.telemetry; }};
  return analyse(trace, samples, {&settings, 1}, {}).front();
}

std::vector<NodeSummary> analyse_file(const std::filesystem::path& path, std::span<const AnalysisSettings> settings,
                                      MemoryBudget& budget, std::size_t threads) {
  TraceStream stream(path);
  const bool in_one_piece = find_pipeline(settings.front().pipeline).needs_whole_job || fits_in_memory(stream);
  if (in_one_piece) budget.windows().free_all();  // needed in no share
  const MemoryBudget::Share share = budget.take(memory_needed(stream, in_one_piece));
  stream.read_tables();
  const auto read = [&stream, in_one_piece](std::size_t begin, std::size_t count, Telemetry& piece) {
    stream.read(begin, count, piece);
    if (in_one_piece) stream.close();
  };
  return analyse(stream.trace(), {.count = stream.samples(), .in_one_piece = in_one_piece, .read = read}, settings,
                 {.in_background = threads > 1 && share.alone(), .windows = &budget.windows()});
}

}  // namespace reveal
