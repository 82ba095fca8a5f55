#include "report_samples.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "hdf5schema/basics/clocks.h"
#include "postproc/diagnose/causal_links.h"
#include "postproc/report/verdict.h"
#include "postproc/words/quantity.h"

namespace reveal::samples {
namespace {

constexpr std::int64_t kBegin = 1'763'634'725'000'000'000;  // 2025-11-20 10:32:05 UTC
constexpr double kGap = std::numeric_limits<double>::quiet_NaN();

TimeSpan span(double begin_seconds, double end_seconds) {
  return {kBegin + static_cast<std::int64_t>(begin_seconds * 1e9),
          kBegin + static_cast<std::int64_t>(end_seconds * 1e9)};
}

/// The same noise on every machine: no libm, no <random> distributions.
class Noise {
 public:
  double next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<double>(state_ >> 40) / static_cast<double>(1U << 24) - 0.5;
  }

 private:
  std::uint64_t state_ = 42;
};

struct Shape {
  const char* node;
  const char* name;
  const char* unit;
  double level;
  double during;  // in the disturbed interval
  double noise;
  double step_factor;  // slower families
};

constexpr Shape kShapes[] = {
    {"n01", "job.outsider_cpu/cpu1", "count", 0.004, 0.982, 0.008, 1},
    {"n01", "cpu.user/cpu1", "ns/s", 0.93e9, 0.97e9, 0.05e9, 1},
    {"n01", "process.run_delay/rank1", "ns/s", 2.0e6, 471e6, 3.0e6, 1},
    {"n01", "process.involuntary_switches/rank1", "count/s", 4, 248, 6, 1},
    {"n02", "net.rx_bytes/eth0", "bytes/s", 118e6, 64e6, 9e6, 1},
    {"n01", "mem.available", "bytes", 11.2e9, 11.1e9, 0.03e9, 10},
};

std::vector<TimelineChannel> timeline(double step_seconds) {
  std::vector<TimelineChannel> channels;
  Noise noise;
  for (const Shape& shape : kShapes) {
    TimelineChannel channel{shape.node, shape.name, shape.unit, 0, step_seconds * shape.step_factor, {}};
    const auto samples = static_cast<std::size_t>(120 / channel.step_seconds);
    for (std::size_t i = 0; i < samples; ++i) {
      const double seconds = static_cast<double>(i) * channel.step_seconds;
      const bool disturbed = seconds >= 62 && seconds < 77;
      const double value = (disturbed ? shape.during : shape.level) + shape.noise * noise.next();
      const bool lost = seconds >= 100 && seconds < 101.5 && channel.node == "n02";
      channel.values.push_back(lost ? kGap : std::abs(value));
    }
    channels.push_back(std::move(channel));
  }
  return channels;
}

ReportJob job() {
  ReportJob job;
  job.id = "4711";
  job.name = "resnet50-ddp";
  job.user = "ada";
  job.cluster = "hydra";
  job.command = "torchrun";
  job.state = "COMPLETED";
  job.restart = 0;
  job.exit_code = 0;
  job.nodes = {"n01", "n02"};
  job.begin_utc_ns = kBegin;
  job.end_utc_ns = kBegin + 120 * kSecond;
  job.tags = {{"dataset", "imagenet-1k"}};
  return job;
}

std::vector<Coverage> probes() {
  using enum Coverage::State;
  return {{"cpu", ok, ""},
          {"memory", ok, ""},
          {"process", ok, ""},
          {"gpu", absent, "no NVIDIA driver is loaded"},
          {"perf", absent, "kernel.perf_event_paranoid is 3; at most 2 is needed"},
          {"rdma", failed, "mlx5_0: Input/output error after 14 s"}};
}

JobTotals totals(const char* node, double factor) {
  JobTotals totals;
  totals.node = node;
  totals.seconds = 120;
  totals.cpu_seconds = 210 * factor;
  totals.cpus_owned = 2 * factor;
  totals.cpu_used_share = 0.875;
  totals.memory_peak = 118.0 * 1024 * 1024 * 1024;
  totals.memory_limit = 256.0 * 1024 * 1024 * 1024;
  totals.read_bytes = 0;
  totals.written_bytes = 1.6 * 1024 * 1024 * 1024 * factor;
  totals.wait_share = 0.12 * factor;
  totals.notes = {{"memory_limit", "requested from Slurm"},
                  {"network_bytes", "other jobs use the node"},
                  {"energy_joules", "other jobs use the node"},
                  {"steps", "the job reports no steps"},
                  {"memory_traffic", "other jobs use the node"}};
  for (const char* counter : {"instructions", "cycles", "stalled_cycles", "cache_misses", "remote_reads"}) {
    totals.notes[counter] = "kernel.perf_event_paranoid is 3; at most 2 is needed";
  }
  return totals;
}

std::vector<JobTotals> totals(std::size_t nodes) {
  std::vector<JobTotals> all{totals("", static_cast<double>(nodes))};
  all.front().nodes = static_cast<double>(nodes);
  for (std::size_t i = 1; i <= nodes; ++i)
    all.push_back(totals(((i < 10 ? "n0" : "n") + std::to_string(i)).c_str(), 1));
  return all;
}

Report base() {
  Report report;
  report.report_id = "4711-0-1";
  report.tool_version = "0.1.0";
  report.directory = "reveal-4711";
  report.totals = totals(2);
  report.created_utc_ns = kBegin + 121 * kSecond + 250'000'000;
  report.shared_node = true;
  report.job = job();
  report.coverage = {{{"n01"}, 1200, 1200, 0.0004, probes(), ""},
                     {{"n02"}, 1200, 1185, 0.0007, probes(), "15 samples lost while the node was stopped"}};
  report.overhead = {{"n01", 0.42, 14'230, 0, 812, ""}, {"n02", 0.39, 13'900, 3, 812, ""}};
  report.not_checked = {{"gpu.power_cap", "no NVIDIA driver is loaded"},
                        {"gpu.ecc", "no NVIDIA driver is loaded"},
                        {"mem.numa_remote", "the node has a single NUMA node"}};
  report.files = {{"trace of n01", "n01.h5"}, {"trace of n02", "n02.h5"}, {"everything as JSON", "report.json"}};
  return report;
}

ReportMark mark(ReportMark::Kind kind, const char* node, double seconds, const char* text) {
  return {kind, node, span(seconds, seconds), text};
}

/// Every kind of phase, in a job of 120 s.
NodePhases phases(std::vector<std::string> nodes, double late, std::string note = "") {
  using enum JobPhase::Kind;
  return {.nodes = std::move(nodes),
          .resolution_seconds = 1,
          .phases = {{reading, span(0, 12 + late)},
                     {few_cpus, span(12 + late, 20)},
                     {computing, span(20, 60)},
                     {writing, span(60, 65)},
                     {computing, span(65, 90)},
                     {communicating, span(90, 100)},
                     {not_measured, span(100, 102)},
                     {computing, span(102, 110)},
                     {waiting, span(110, 120)}},
          .note = std::move(note)};
}

/// Two nodes that differ, `odd` and another one, beside peers.
MetricAcrossNodes across(const char* channel, const char* unit, double level, double odd_level,
                         const std::vector<std::string>& odd, const std::vector<std::string>& peers,
                         std::size_t all_peers, std::size_t points) {
  MetricAcrossNodes metric{.channel = channel, .unit = unit, .step_seconds = 120 / static_cast<double>(points)};
  Noise noise;
  const auto course = [&](double around) {
    std::vector<double> values(points);
    for (double& value : values) value = four_digits(around * (1 + 0.1 * noise.next()));
    return values;
  };
  double around = odd_level;
  for (const std::string& node : odd) {
    metric.lines.push_back({node, true, around, course(around)});
    around *= 0.85;
  }
  for (const std::string& node : peers) metric.lines.push_back({node, false, level, course(level)});
  metric.peers = all_peers;
  metric.median_mean = level;
  metric.median = course(level);
  return metric;
}

Finding outsider_finding() {
  Finding finding;
  finding.id = "cpu.outsider";
  finding.fingerprint = "cpu.outsider:n01:cpu1";
  finding.title = "A process outside the job ran on the job's CPUs";
  finding.sentence =
      "For 15.0 s something that does not belong to the job used 0.98 of cpu1 on n01, where rank 1 runs; over the rest "
      "of the job it was 0.004. Rank 1 waited 471 ms in each second for its CPU, and the other ranks waited for rank "
      "1.";
  finding.severity = Severity::critical;
  finding.confidence = Confidence::certain;
  finding.kind = FindingKind::anomaly;
  finding.subsystem = Subsystem::cpu;
  finding.nodes = {"n01"};
  finding.instances = {"cpu1"};
  finding.intervals = {span(62, 77)};
  finding.impact = {7.1, 5.9, "run delay of rank 1 inside the interval; the slowest rank decides"};
  finding.evidence = {
      {"job.outsider_cpu",
       "cpu1",
       "n01",
       "mean",
       0.982,
       0.004,
       "count",
       span(62, 77),
       {Method::interval_scan, Method::paper_z, Method::paper_mahalanobis},
       41.3},
      {"process.run_delay",
       "rank1",
       "n01",
       "mean",
       471e6,
       2.0e6,
       "ns/s",
       span(62, 77),
       {Method::interval_scan, Method::paper_z},
       38.0},
      {"net.rx_bytes", "eth0", "n02", "level", 64e6, 118e6, "bytes/s", span(62.2, 77.1), {Method::interval_scan}, 9.2},
      {"job.cpus_allowed", "", "n01", "configuration", 4, std::nullopt, "count", {}, {}, std::nullopt}};
  finding.runner_up = {"cpu.throttled", "the cgroup's cpu.stat counted no throttled period"};
  finding.remedy.user = {"#SBATCH --exclusive", "srun --cpu-bind=cores --cpus-per-task=2 ./train.sh"};
  finding.remedy.admin = {"Find who ran there: the accounting of n01 from 10:33:07 to 10:33:22 UTC.",
                          "Confine other jobs and daemons with ConstrainCores=yes in cgroup.conf."};
  finding.remedy.verify = "job.outsider_cpu stays under 0.05 on every CPU of the job in the next run";
  finding.sources = {"https://slurm.schedmd.com/cgroup.conf.html"};
  return finding;
}

std::vector<ReportEpisode> episodes() {
  ReportEpisode first;
  first.node = "n01";
  first.first_window = 60;
  first.last_window = 76;
  first.span = span(62, 77);
  first.methods = {Method::interval_scan, Method::paper_z, Method::paper_mahalanobis};
  first.agreement = 3;
  first.score = 41.3;
  first.tier = Tier::strong;
  first.subsystem = Subsystem::cpu;
  first.reasons = {{"job.outsider_cpu", "cpu1", "mean", "count", 41.3, 0.982, 0.004},
                   {"process.run_delay", "rank1", "mean", "ns/s", 38.0, 471e6, 2.0e6}};
  first.claim = "CPU time used by processes outside the job exceeds the baseline on cpu1.";
  ReportEpisode second;
  second.node = "n02";
  second.first_window = second.last_window = 108;
  second.span = span(108, 111);
  second.methods = {Method::paper_z, Method::paper_forest};
  second.agreement = 2;
  second.score = 6.4;
  second.tier = Tier::weak;
  second.labels = {Label::edge};
  second.subsystem = Subsystem::storage;
  second.reasons = {{"disk.write_bytes", "nvme0n1", "standard_deviation", "bytes/s", 6.4, 212e6, 8e6}};
  second.claim = "Disk writes show a different standard deviation versus baseline.";
  return {first, second};
}

}  // namespace

Report outsider(double timeline_step_seconds) {
  Report report = base();
  report.verdict = {VerdictStatus::finding, "cpu.outsider",
                    "Something outside the job used 0.98 of cpu1 on n01 for 15 s and cost about 7.1 s (5.9 %)."};
  report.findings = {outsider_finding()};
  Finding note;
  note.id = "mem.writeback_stall";
  note.fingerprint = "mem.writeback_stall:n02";
  note.title = "Writes had to wait for dirty pages";
  note.sentence = "While the checkpoint was written, tasks on n02 waited 0.31 s for dirty pages; 1.9 GiB were dirty.";
  note.severity = Severity::notice;
  note.confidence = Confidence::possible;
  note.subsystem = Subsystem::storage;
  note.nodes = {"n02"};
  note.intervals = {span(108, 111)};
  note.impact = {std::nullopt, std::nullopt, "the job's own writing cannot be told from others'"};
  note.evidence = {
      {"mem.dirty", "", "n02", "maximum", 2.04e9, 0.11e9, "bytes", span(108, 111), {Method::paper_z}, 6.4}};
  note.remedy.admin = {"vm.dirty_background_bytes = 268435456"};
  note.remedy.verify = "mem.dirty stays under 256 MiB between checkpoints";
  report.findings.push_back(note);
  report.episodes = episodes();
  report.omitted = {{"notices", 2}};
  report.timeline = timeline(timeline_step_seconds);
  report.phases = {phases({"n01", "n02"}, 0, "not measured: communicating (other jobs use the node)")};
  return report;
}

Report chain() {
  Report report = base();
  report.report_id = "4713-0-1";
  const auto add = [&](const char* id, const char* title, const char* sentence, double begin, Severity severity,
                       Impact impact, Evidence evidence) {
    Finding finding;
    finding.id = id;
    finding.fingerprint = std::string(id) + ":n01";
    finding.title = title;
    finding.sentence = sentence;
    finding.severity = severity;
    finding.confidence = Confidence::likely;
    finding.nodes = {evidence.node};
    finding.intervals = {evidence.span = span(begin, 77)};
    finding.impact = std::move(impact);
    finding.evidence = {std::move(evidence)};
    finding.remedy.verify = "the counters stand still";
    report.findings.push_back(std::move(finding));
  };
  add("irq.imbalance", "Interrupts of a device pile up on one cpu",
      "Cpu 3 of n01 handled 0.97 of the interrupts of eth0 for 15 s.", 62, Severity::notice,
      {std::nullopt, std::nullopt, "not known: no other node was seen waiting"},
      {"irq.softirq_share", "cpu3", "n01", "mean", 0.97, 0.26, "ratio", {}, {Method::interval_scan}, 22});
  add("irq.softirq_saturation", "A cpu could not handle its packets in time",
      "The backlog of cpu 3 on n01 dropped 912 packets in 14.6 s.", 62.4, Severity::notice,
      {std::nullopt, std::nullopt, "not known: see what was sent again"},
      {"softnet.dropped", "cpu3", "n01", "sum", 912, 0, "count", {}, {Method::error_counters}, std::nullopt});
  add("net.tcp_retrans_fault", "Packets are lost on their way to a node",
      "Segments to n01 were lost for 14 s: 960 came out of order, 0.4 % of them.", 63, Severity::warning,
      {9.1, 7.6, "time the ranks waited longer than usual for data"},
      {"tcpext.TCPOFOQueue", "", "n01", "sum", 960, 3, "count", {}, {Method::interval_scan}, 18});
  find_causes(report.findings);
  describe_chains(report.findings);
  judge(report, {});
  report.timeline = timeline(2);
  return report;
}

Report healthy() {
  Report report = base();
  report.report_id = "4712-0-1";
  report.job.id = "4712";
  report.directory = "reveal-4712";
  report.job.ran_seconds = 123.4;
  report.verdict = {VerdictStatus::healthy, "", "No problem found in 120 s on 2 nodes: nothing to change."};
  report.coverage[1].note.clear();
  report.coverage[1].samples_present = 1200;
  return report;
}

Report failed() {
  Report report = healthy();
  report.report_id = "run-2";
  report.directory = "reveal-20251120-103205-26256";
  report.shared_node = false;
  report.job = {};
  report.job.command = "make";
  report.job.user = "ada";
  report.job.nodes = {"laptop"};
  report.job.begin_utc_ns = kBegin;
  report.job.end_utc_ns = kBegin + 36 * kSecond;
  report.job.state = "FAILED";
  report.job.exit_code = 134;
  report.job.ran_seconds = 36.4;
  report.verdict = {VerdictStatus::healthy, "",
                    "The command failed: ended by SIGABRT (exit status 134) after 36.4 s. Nothing unusual was found "
                    "on the node; check the program's own output.",
                    true};
  report.coverage = {{{"laptop"}, 360, 359, 0.0004, probes(), ""}};
  report.overhead = {{"laptop", 0.98, 9'100, 2, 712, ""}};
  report.totals = totals(1);
  report.totals[1].node = "laptop";
  Finding change = outsider_finding();
  change.id = "anomaly.unexplained";
  change.title = "Something changed that no rule explains";
  change.sentence = "For 14 s tcpext.DelayedACKs was 8.07/s instead of 0.0606/s.";
  change.severity = Severity::info;
  change.confidence = Confidence::possible;
  change.nodes = {"laptop"};
  change.remedy = {};
  report.findings = {change};
  report.episodes = {episodes().front()};
  report.episodes.front().node = "laptop";
  report.phases = {{.nodes = {"laptop"}, .note = "the job's cpu time was not measured: too many files"}};
  report.timeline = timeline(4);
  return report;
}

Report insufficient() {
  Report report = base();
  report.report_id = "run-1";
  report.directory = "reveal-20251120-103205-4242";
  report.totals.clear();
  report.partial = true;
  report.shared_node = false;
  report.job = {};
  report.job.command = "make";
  report.job.nodes = {"laptop"};
  report.job.begin_utc_ns = kBegin;
  report.job.end_utc_ns = kBegin + 4 * kSecond;
  report.job.exit_code = 2;
  report.verdict = {VerdictStatus::insufficient_data, "", "2 windows of 3 s, at least 30 are needed."};
  report.coverage = {{{"laptop"}, 40, std::nullopt, std::nullopt, probes(), "the collector was killed after 2 s"}};
  report.overhead = {{"laptop", std::nullopt, std::nullopt, std::nullopt, 212, "the collector was killed after 2 s"}};
  report.not_checked = {{"all rules on anomalies", "too few windows"}};
  report.files = {{"trace of laptop", "laptop.h5.part"}};
  return report;
}

Report many_nodes() {
  Report report = outsider(4);
  report.report_id = "4713-0-1";
  report.job.id = "4713";
  report.directory = "reveal-4713";
  report.totals = totals(12);
  report.job.array = "4710_3";
  report.job.nodes.clear();
  report.overhead.clear();
  for (int i = 1; i <= 40; ++i) {
    const std::string node = (i < 10 ? "n0" : "n") + std::to_string(i);
    report.job.nodes.push_back(node);
    report.overhead.push_back({node, 0.35 + 0.01 * (i % 7), 14'000.0 + 10 * i, i % 5 == 0 ? 1.0 : 0.0, 812, ""});
  }
  report.coverage[0].nodes = {report.job.nodes.begin(), report.job.nodes.end() - 2};
  report.coverage[1].nodes = {"n39"};
  report.coverage.push_back({{"n40"}, 1200, 0, std::nullopt, {}, "no trace arrived"});
  report.partial = true;
  report.supersedes = "4713-0-0";
  report.locality = {{.node = "n01",
                      .places = {{.numa = 0,
                                  .cpus = "0-31",
                                  .job_cpus = "0-15",
                                  .gpus = {"gpu0 (0000:17:00.0)", "gpu1 (0000:31:00.0)"},
                                  .networks = {"mlx5_0 (ib0, 200 Gb/sec (4X HDR), ACTIVE)"},
                                  .interrupts = {"net ib0, infiniband mlx5_0: 32 vectors on cpus 0-31"},
                                  .processes = {"rank0 (98 % of its time; memory 3.1 GiB here; gpu0 here)"}},
                                 {.numa = 1, .cpus = "32-63", .networks = {"eth0 (25 Gb/s)"}},
                                 {.gpus = {"0000:65:00.0"}}},
                      .note = ""},
                     {.node = "n02", .places = {}, .note = "one NUMA node: all is near"}};
  const Finding note = report.findings[1];
  for (std::size_t i = 0; i < 5; ++i) {
    report.findings.push_back(note);
    report.findings.back().nodes = {report.job.nodes[10 + 3 * i]};
  }
  const ReportEpisode episode = report.episodes[1];
  for (std::size_t i = 0; i < 6; ++i) {
    report.episodes.push_back(episode);
    report.episodes.back().node = report.job.nodes[10 + 3 * i];
    const double begin = 20 + 10 * static_cast<double>(i);
    report.episodes.back().span = span(begin, begin + 4);
    report.episodes.back().subsystem = i % 2 == 0 ? Subsystem::network : Subsystem::storage;
  }
  for (int i = 0; i < 6; ++i) {
    report.not_checked.push_back({"rule." + std::to_string(i), "reason number " + std::to_string(i)});
  }
  report.comparison = {
      .compared = true,
      .reason = "",
      .groups = {{.nodes = {report.job.nodes.begin(), report.job.nodes.end() - 1},
                  .compared = true,
                  .seconds = 118,
                  .channels = 230}},
      .tests = 8970,
      .deviations = {{"n17", "cpu.frequency", "Hz", Subsystem::cpu, 2.1e9, 3.1e9, -32, -41, 1e-9, true},
                     {"n17", "mem.used", "bytes", Subsystem::memory, 171e9, 126e9, 36, 22, 1e-7, true}},
      .cells = {{"n17", Subsystem::cpu, 1, -32}, {"n17", Subsystem::memory, 1, 36}},
      .facts = {{"cpu.governor", {"n17"}, "powersave", "performance"}},
      .straggler = {"n17", "job.cpu_time", 1.98, 1.41, 9, 7.6, ""},
      .sentence = "39 nodes that do the same work compared in 230 channels: n17 differs in 2 of them"};
  report.anomalous = {{AnomalousTime::By::subsystem, "storage", 21, 45.65},
                      {AnomalousTime::By::subsystem, "cpu", 15, 32.61},
                      {AnomalousTime::By::subsystem, "network", 10, 21.74},
                      {AnomalousTime::By::metric, "disk.write_bytes", 31, 67.39},
                      {AnomalousTime::By::metric, "irq.count", 2, 4.348}};
  report.marks = {mark(ReportMark::Kind::process, "", 0.4, "rank0 began on n[01-39]"),
                  mark(ReportMark::Kind::training, "n01", 4, "step 1"),
                  mark(ReportMark::Kind::training, "n01", 60, "step 129"),
                  mark(ReportMark::Kind::device, "n02", 71, "gpu0 NVIDIA driver error 79"),
                  mark(ReportMark::Kind::training, "n01", 116, "step 257"),
                  mark(ReportMark::Kind::configuration, "n17", 120,
                       "cpu.governor was performance at the begin, powersave at the end")};
  std::vector<std::string> most(report.job.nodes.begin(), report.job.nodes.end());
  std::erase(most, "n17");
  report.phases = {phases(most, 0), phases({"n17"}, 4)};
  report.phases[0].first_step_utc_ns = span(20, 20).begin_utc_ns;
  report.phases[0].last_step_utc_ns = span(118, 118).begin_utc_ns;
  report.across = {across("mem.used", "bytes", 126e9, 171e9, {"n17"}, {}, 38, 6),
                   across("cpu.frequency", "Hz", 3.1e9, 2.1e9, {"n17"}, {"n18", "n19"}, 2, 6)};
  report.across[1].lines[1].values[3] = kGap;
  report.history = {.status = HistoryStatus::compared,
                    .reason = "",
                    .key = "resnet50-ddp",
                    .runs = 6,
                    .accepted = 5,
                    .channels = 210,
                    .first_utc_ns = kBegin - 5'000'000'000'000,
                    .last_utc_ns = kBegin - 900'000'000'000,
                    .why_not = "it has a finding",
                    .changes = {{.what = HistoryChange::What::run_time,
                                 .name = "run time",
                                 .unit = "s",
                                 .observed = 120,
                                 .expected = 108,
                                 .percent = 11,
                                 .t = 6},
                                {.what = HistoryChange::What::configuration,
                                 .name = "env.OMP_NUM_THREADS",
                                 .now = "2",
                                 .before = ""}},
                    .earlier = {{kBegin - 5'000'000'000'000, 107, true},
                                {kBegin - 3'000'000'000'000, 131, false},
                                {kBegin - 900'000'000'000, 108, true}},
                    .sentence = "12 s longer than the median of 5 earlier runs"};
  return report;
}

Report large(std::size_t nodes, std::size_t odd) {
  constexpr std::size_t kEpisodes = 60;
  constexpr std::size_t kNamed = 40;
  Report report = many_nodes();
  report.timeline = outsider(0.1).timeline;
  report.totals = totals(nodes);
  report.overhead.clear();
  report.job.nodes.clear();
  for (std::size_t i = 1; i <= nodes; ++i) {
    const std::string number = std::to_string(10'000 + i);
    report.job.nodes.push_back("n" + number.substr(1));
    report.totals[i].node = report.job.nodes.back();
    report.overhead.push_back({report.job.nodes.back(), 0.35, 14'000, 0, 812, ""});
  }
  report.coverage.resize(1);
  report.coverage[0].nodes = report.job.nodes;
  report.comparison.groups[0].nodes = report.job.nodes;
  const auto node = [&](std::size_t i) { return report.job.nodes[i % std::min(nodes, odd)]; };
  for (Finding& finding : report.findings) finding.nodes = {node(0)};
  for (std::size_t i = 0; report.episodes.size() < kEpisodes; ++i) {
    report.episodes.push_back(report.episodes[i % 8]);
    report.episodes.back().span = span(static_cast<double>(i), static_cast<double>(i) + 4);
  }
  for (std::size_t i = 0; i < report.episodes.size(); ++i) report.episodes[i].node = node(i);
  report.comparison.deviations.clear();
  report.comparison.cells.clear();
  for (std::size_t i = 0; i < std::min(odd, kNamed); ++i) {
    report.comparison.deviations.push_back(
        {node(i), "mem.used", "bytes", Subsystem::memory, 171e9, 126e9, 36, 22, 1e-7});
    report.comparison.cells.push_back({node(i), Subsystem::memory, 1, 36});
  }
  report.comparison.facts = {{"cpu.governor", {node(0)}, "powersave", "performance"}};
  report.comparison.straggler = {};
  report.across.clear();
  const std::size_t drawn = std::min<std::size_t>(4, odd);
  const std::vector<std::string> deviating(report.job.nodes.begin(),
                                           report.job.nodes.begin() + static_cast<std::ptrdiff_t>(drawn));
  std::vector<std::string> peers;
  if (nodes <= drawn + 8)
    peers.assign(report.job.nodes.begin() + static_cast<std::ptrdiff_t>(drawn), report.job.nodes.end());
  for (const char* channel : {"mem.used", "cpu.frequency", "net.rx_bytes", "disk.io_time", "gpu.power", "irq.count"}) {
    report.across.push_back(across(channel, "bytes", 126e9, 171e9, deviating, peers, nodes - drawn, 120));
  }
  report.marks.clear();
  for (std::size_t i = 0; i < 200; ++i) {
    report.marks.push_back(mark(i % 4 == 0 ? ReportMark::Kind::training : ReportMark::Kind::process, node(i).c_str(),
                                0.5 * static_cast<double>(i), "rank3 began"));
  }
  return report;
}

Report hostile() {
  Report report = outsider(8);
  const std::string script = "<script>alert('x')</script>";
  const std::string image = "\"><img src=x onerror=alert(1)>";
  report.report_id = script;
  report.job.name = script + std::string(4096, 'A');
  report.job.user = "eve\x1b[31mred\x1b[0m\x1b]0;title\aend\r\nVERDICT  healthy";
  report.job.command = "</script><!-- \xff\xfe broken \xc3( utf-8 \xed\xa0\x80";
  report.job.state =
      "\xe2\x80\xae"
      "DETELPMOC";  // right-to-left override
  report.job.nodes = {"n01", image};
  report.job.tags = {{"k\"'",
                      "v&<>\x01\x7f\xc2\x9b"
                      "31m"}};
  report.verdict.sentence = "a\nb\tc " + script + " \x1b[2J\x1b[H " + std::string(3000, 'w');
  report.findings[0].title = image;
  report.findings[0].sentence = "5 < 6 & 7 > 6 </script> ünïcödé 中文 \xf0\x9f\x9a\x80";
  report.findings[0].remedy.user = {"echo '$(rm -rf ~)'\n# second line\x1b[8m hidden"};
  report.findings[0].instances = {script};
  report.findings[0].sources = {"javascript:alert(1)", "https://example.org/\" onmouseover=\"alert(1)"};
  report.findings[0].evidence[0].observed = std::numeric_limits<double>::infinity();
  report.findings[0].evidence[1].unit = script;
  report.episodes[0].claim = script;
  report.timeline[0].name = "</script><script>alert(2)</script>";
  report.timeline[1].unit = "<b>";
  report.timeline[2].values.assign(report.timeline[2].values.size(), kGap);
  report.timeline[3].values.clear();
  report.coverage[0].probes[3].reason = script;
  report.locality = {{image, {{1, script, image, {script}, {image}, {script}, {"\x1b[31m" + script}}}, script}};
  report.not_checked[0].rule = script;
  report.files = {{image, "../../etc/passwd"}};
  report.marks = {mark(ReportMark::Kind::device, image.c_str(), 3, script.c_str())};
  report.across = {across(script.c_str(), image.c_str(), 1, 2, {script}, {image}, 1, 3)};
  report.across[0].lines[0].values = {kGap, 1e300, -1e300};
  report.across[0].lines[0].mean = std::numeric_limits<double>::infinity();
  report.anomalous = {{AnomalousTime::By::metric, script, -5, 1e9}};
  report.phases = {{.nodes = {image},
                    .phases = {{JobPhase::Kind::reading, span(90, 10)}, {JobPhase::Kind::waiting, span(-1e9, 20)}}},
                   {.nodes = {script}, .note = script}};
  report.history.earlier = {{-1, 1e300, true}, {INT64_MAX, -1, false}, {0, 5, false}};
  return report;
}

std::vector<Sample> all() {
  return {{"outsider", outsider(2)}, {"healthy", healthy()},       {"insufficient", insufficient()},
          {"failed", failed()},      {"many_nodes", many_nodes()}, {"hostile", hostile()},
          {"chain", chain()}};
}

void keep_page(const std::string& name, const std::string& page) {
  if (const char* pages = std::getenv("REVEAL_PAGES")) std::ofstream(pages + ("/" + name + ".html")) << page;
}

}  // namespace reveal::samples
