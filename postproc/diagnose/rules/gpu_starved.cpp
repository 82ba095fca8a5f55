// GPUs that stand still in the middle of the job, because the cpus that prepare their data are full, because the data
// come too slowly from storage, or because they wait for each other; and GPUs that work in many small pieces.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/found_before.h"
#include "postproc/diagnose/gpu_signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::gpu_starved {
namespace {

constexpr double kWorks = 50;  // percent

/// The moments in which the job's GPUs stood still between their first and their last work.
struct Standstill {
  Interval phase;
  std::vector<bool> idle;  // by step
  double seconds = 0;      // of GPU time that is missing
  double use = 0;          // percent, mean in the phase
  std::string gpu;         // the first of them
};

/// Mean use of the GPUs that work at all.
std::vector<double> mean_use(const RuleContext& context, std::string& first) {
  std::vector<double> sum(context.telemetry.samples, 0);
  std::vector<double> count(context.telemetry.samples, 0);
  for (const std::string& gpu : gpus_measured(context)) {
    const auto use = gpu_series(context, "gpu.utilization", gpu);
    if (active_phase(use, kWorks).length() == 0 || is_divided(context, gpu)) continue;
    if (first.empty()) first = gpu;
    for (std::size_t t = 0; t < use.size(); ++t) {
      if (std::isnan(use[t])) continue;
      sum[t] += use[t];
      count[t] += 1;
    }
  }
  for (std::size_t t = 0; t < sum.size(); ++t) sum[t] = count[t] > 0 ? sum[t] / count[t] : std::nan("");
  return sum;
}

/// Nothing where the GPUs work for most of the time.
std::optional<Standstill> standstill(const RuleContext& context) {
  Standstill found;
  const std::vector<double> use = mean_use(context, found.gpu);
  found.phase = active_phase(use, kWorks);
  if (context.seconds(found.phase.length()) < context.threshold("min_seconds")) return std::nullopt;
  found.idle.assign(use.size(), false);
  std::size_t known = 0;
  std::size_t idle = 0;
  double sum = 0;
  for (std::size_t t = found.phase.begin; t < found.phase.end; ++t) {
    if (std::isnan(use[t])) continue;
    ++known;
    sum += use[t];
    found.idle[t] = use[t] < context.threshold("max_use");
    idle += found.idle[t] ? 1 : 0;
  }
  found.use = sum / static_cast<double>(known);
  const double idle_share = static_cast<double>(idle) / static_cast<double>(known);
  const double unused = 1 - found.use / 100;
  if (idle_share < context.threshold("min_idle")) {
    // Waits that are shorter than a look at the GPU show as a part of each look.
    if (unused < 2 * context.threshold("min_idle")) return std::nullopt;
    for (std::size_t t = found.phase.begin; t < found.phase.end; ++t) found.idle[t] = !std::isnan(use[t]);
  }
  found.seconds = unused * context.seconds(found.phase.length());
  return found;
}

/// NaN where it was not measured then.
double mean_then(const Standstill& still, std::span<const double> series) {
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t t = 0; t < series.size(); ++t) {
    if (!still.idle[t] || std::isnan(series[t])) continue;
    sum += series[t];
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : std::nan("");
}

/// What the job did while its GPUs stood still.
struct Doing {
  double cpus = 0;          // used by the job
  double cpus_allowed = 0;  // that it has; 0: not known
  double busiest = 0;       // cpus, of its busiest process
  std::string process;
  double io_wait = 0;  // part of the time in which a task waited for storage

  [[nodiscard]] bool cpus_full(double share) const { return cpus_allowed > 0 && cpus >= share * cpus_allowed; }
};

Doing doing(const RuleContext& context, const Standstill& still) {
  Doing now;
  const auto cpu = rate(context, "job.cpu_time", 1e-9, "cpus");
  now.cpus = cpu ? mean_then(still, cpu->values) : std::nan("");
  now.cpus_allowed = static_cast<double>(parse_cpu_list(context.snapshot_value("job.cpus_allowed")).size());
  for (const std::size_t channel : context.channels("process.cpu_time")) {
    const double used = mean_then(still, channel_rate(context, channel, 1e-9, "cpus").values);
    if (!(used > now.busiest)) continue;
    now.busiest = used;
    now.process = context.telemetry.channels[channel].instance;
  }
  auto wait = rate(context, "cgroup.io_some", 1e-9, "s/s");
  if (!wait) wait = rate(context, "pressure.io_some", 1e-9, "s/s");
  now.io_wait = wait ? mean_then(still, wait->values) : std::nan("");
  return now;
}

Finding describe(const RuleContext& context, const Standstill& still, const JobValues& more) {
  Finding finding = context.finding(more);
  finding.confidence = Confidence::likely;
  finding.intervals = {context.span(still.phase.begin, still.phase.end)};
  finding.impact.seconds = still.seconds;
  finding.impact.percent = 100 * still.seconds / job_seconds(context);
  finding.impact.how = "time in which its GPUs did not work between their first and their last work";
  finding.severity = severity_of_loss(still.seconds, *finding.impact.percent, context.threshold("min_lost_seconds"),
                                      context.threshold("min_lost_percent"));
  Evidence use = fact(context, "gpu.utilization", still.gpu, "mean", still.use, std::nullopt, "percent");
  use.span = finding.intervals.front();
  finding.evidence.push_back(std::move(use));
  return finding;
}

Evidence then(const RuleContext& context, const Finding& finding, std::string metric, const std::string& instance,
              double observed, std::optional<double> of, std::string unit) {
  Evidence evidence =
      fact(context, std::move(metric), instance, "mean while the GPUs were idle", observed, of, std::move(unit));
  evidence.span = finding.intervals.front();
  return evidence;
}

/// Bytes a second that left the node. An RDMA port and its network interface may count the same bytes: the larger
/// number is taken.
std::vector<double> sent_away(const RuleContext& context) {
  std::map<std::string, std::vector<double>> ways;
  const auto sent_by = [&](std::size_t channel) {
    std::vector<double> sent = channel_rate(context, channel, 1, "bytes/s").values;
    for (double& value : sent) value = std::isnan(value) ? 0 : value;
    return sent;
  };
  for (const std::size_t channel : context.channels("net.tx_bytes")) {
    const std::string& instance = context.telemetry.channels[channel].instance;
    if (instance.substr(instance.rfind('/') + 1) != "lo") ways[instance] = sent_by(channel);
  }
  for (const std::size_t channel : context.channels("ib.xmit_bytes")) {
    const std::string& port = context.telemetry.channels[channel].instance;  // "mlx5_0:1"
    const std::vector<double> sent = sent_by(channel);
    std::string key = "rdma." + port;
    std::replace(key.begin(), key.end(), ':', '.');
    const std::string interface = context.snapshot_value(key + ".interface");
    std::vector<double>& way = ways[interface.empty() ? port : interface];
    way.resize(sent.size(), 0);
    for (std::size_t t = 0; t < sent.size(); ++t) way[t] = std::max(way[t], sent[t]);
  }
  std::vector<double> sum;
  for (const auto& [name, sent] : ways) {
    sum.resize(sent.size(), 0);
    for (std::size_t t = 0; t < sent.size(); ++t) sum[t] += sent[t];
  }
  return sum;
}

/// Bytes a second that GPUs sent over NVLink.
std::vector<double> sent_over_links(const RuleContext& context) {
  const auto sent = rate(context, "nvlink.tx_bytes", 1, "bytes/s");
  return sent ? sent->values : std::vector<double>();
}

std::vector<Finding> check_input(const RuleContext& context) {
  const auto still = standstill(context);
  if (!still) return {};
  const Doing now = doing(context, *still);
  if (std::isnan(now.cpus)) throw Unavailable("not measured: job.cpu_time");
  if (now.io_wait >= context.threshold("max_io_wait")) return {};  // gpu.starved_io
  if (found_before(context, "cpu.affinity_too_narrow") || found_before(context, "cpu.cfs_throttled")) return {};
  const bool full = now.cpus_full(context.threshold("min_full"));
  const bool one = !full && now.busiest >= context.threshold("min_full");
  if (!full && !one) return {};
  if (one) {
    // Who polls for its neighbours takes a whole cpu, too.
    const std::vector<double> sent = sent_away(context);
    if (sent.empty()) throw Unavailable("not measured: traffic between nodes (net.tx_bytes)");
    if (mean_then(*still, sent) >= context.threshold("max_traffic") * 1e6) return {};
  }

  JobValues values = gpu_values(context, still->gpu);
  const std::string cpus = fmt::format("{:.0f}", now.cpus_allowed);
  if (full) values["more_cpus"] = fmt::format("{:.0f}", 2 * now.cpus_allowed);
  if (!full && now.cpus_allowed >= 3) values["workers"] = fmt::format("{:.0f}", now.cpus_allowed - 1);
  Finding finding = describe(context, *still, values);
  if (full) {
    finding.evidence.push_back(then(context, finding, "job.cpu_time", "", now.cpus, now.cpus_allowed, "cpus"));
    finding.sentence = fmt::format(
        "The job's GPUs on {} waited for data: they worked {} % of the time, and while they were idle, the job used {} "
        "of its {} cpus.",
        context.telemetry.node, number(still->use), number(now.cpus), cpus);
  } else {
    // It may be a phase of the job's that needs no GPU.
    finding.severity = Severity::notice;
    finding.confidence = Confidence::possible;
    finding.evidence.push_back(
        then(context, finding, "process.cpu_time", now.process, now.busiest, std::nullopt, "cpus"));
    finding.sentence = fmt::format(
        "The job's GPUs on {} worked {} % of the time between their first and their last work; while they were idle, "
        "{} used {} cpus, and the whole job {}{}.",
        context.telemetry.node, number(still->use), context.rank_name(now.process), number(now.busiest),
        number(now.cpus), now.cpus_allowed > 0 ? " of its " + cpus : "");
  }
  finding.runner_up = {"gpu.starved_io",
                       std::isnan(now.io_wait)
                           ? "how long tasks waited for storage was not measured"
                           : fmt::format("tasks waited for storage only {} % of that time", number(100 * now.io_wait))};
  return {finding};
}

std::vector<Finding> check_storage(const RuleContext& context) {
  const auto still = standstill(context);
  if (!still) return {};
  const Doing now = doing(context, *still);
  if (std::isnan(now.io_wait)) throw Unavailable("not measured: pressure.io_some");
  if (now.io_wait < context.threshold("min_io_wait")) return {};
  if (now.cpus_full(context.threshold("max_full"))) return {};
  Finding finding = describe(context, *still, gpu_values(context, still->gpu));
  finding.evidence.push_back(then(context, finding, "pressure.io_some", "", now.io_wait, std::nullopt, "s/s"));
  finding.sentence = fmt::format(
      "The job's GPUs on {} waited for storage: they worked {} % of the time, and while they were idle, tasks waited "
      "for io {} % of the time.",
      context.telemetry.node, number(still->use), number(100 * now.io_wait));
  finding.runner_up = {"gpu.starved_input", fmt::format("the cpus were not full: the job used {} of {}",
                                                        number(now.cpus), number(now.cpus_allowed))};
  return {finding};
}

/// Bytes a second while the GPUs waited, and otherwise.
struct Burst {
  double then = 0;
  double otherwise = 0;
};
std::optional<Burst> burst(const RuleContext& context, const Standstill& waits, std::span<const double> sent) {
  if (sent.empty()) return std::nullopt;
  Standstill rest = waits;
  for (std::size_t t = rest.phase.begin; t < rest.phase.end; ++t) rest.idle[t] = !waits.idle[t];
  const Burst found{mean_then(waits, sent), mean_then(rest, sent)};
  const bool much = found.then >= context.threshold("min_traffic") * 1e6 &&
                    (std::isnan(found.otherwise) || found.then >= context.threshold("min_burst") * found.otherwise);
  return much ? std::optional(found) : std::nullopt;
}

/// Somebody to wait for: another GPU that works, or another node.
bool has_others(const RuleContext& context) {
  std::size_t work = 0;
  for (const std::string& gpu : gpus_measured(context)) {
    work += active_phase(gpu_series(context, "gpu.utilization", gpu), kWorks).length() > 0 ? 1 : 0;
  }
  return work >= 2 || parse_int(context.snapshot_value("env.SLURM_JOB_NUM_NODES")).value_or(1) > 1;
}

/// Mean of those GPUs that work at all; empty where none tells it.
std::vector<double> mean_power(const RuleContext& context) {
  std::vector<double> sum;
  double count = 0;
  for (const std::string& gpu : gpus_measured(context)) {
    const auto power = gpu_series(context, "gpu.power", gpu);
    if (power.empty() || active_phase(gpu_series(context, "gpu.utilization", gpu), kWorks).length() == 0) continue;
    sum.resize(context.telemetry.samples, 0);
    for (std::size_t t = 0; t < sum.size(); ++t) sum[t] += power[t];
    count += 1;
  }
  for (double& value : sum) value /= count;
  return sum;
}

double usual_power(std::span<const double> power, Interval phase) {
  constexpr double kUsualHigh = 0.95;
  std::vector<double> values;
  for (std::size_t t = phase.begin; t < phase.end; ++t) {
    if (!std::isnan(power[t])) values.push_back(power[t]);
  }
  if (values.empty()) return std::nan("");
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(kUsualHigh * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

/// Kernels of collectives keep a GPU "busy" while they wait, at the power of a GPU that does nothing.
std::optional<Standstill> spinning(const RuleContext& context) {
  constexpr double kBusy = 85;  // percent
  Standstill found;
  const std::vector<double> use = mean_use(context, found.gpu);
  const std::vector<double> power = mean_power(context);
  found.phase = active_phase(use, kWorks);
  if (power.empty() || context.seconds(found.phase.length()) < context.threshold("min_seconds")) return std::nullopt;
  const double high = usual_power(power, found.phase);
  found.idle.assign(use.size(), false);
  for (std::size_t t = found.phase.begin; t < found.phase.end; ++t) {
    found.idle[t] = use[t] >= kBusy && power[t] < context.threshold("max_power") * high;
    found.seconds += found.idle[t] ? context.telemetry.step_seconds : 0;
  }
  found.use = mean_inside(use, found.phase);
  const bool much = found.seconds >= context.threshold("min_idle") * context.seconds(found.phase.length());
  return much ? std::optional(std::move(found)) : std::nullopt;
}

std::vector<Finding> check_collectives(const RuleContext& context) {
  auto waits = spinning(context);
  const bool spins = waits.has_value();
  if (!spins) waits = standstill(context);
  if (!waits || !has_others(context)) return {};
  const Doing now = doing(context, *waits);
  // Who polls for its neighbours takes a whole cpu: where the GPU is held by a kernel that says nothing.
  const bool prepares =
      now.cpus_full(context.threshold("max_full")) || (!spins && now.busiest >= context.threshold("max_full"));
  if (prepares || now.io_wait >= context.threshold("max_io_wait")) return {};
  const std::vector<double> away = sent_away(context);
  const std::vector<double> over_links = sent_over_links(context);
  if (away.empty() && over_links.empty())
    throw Unavailable("not measured: traffic between GPUs and nodes (net.tx_bytes)");
  auto sent = burst(context, *waits, away);
  const bool left = sent.has_value();
  if (!left) sent = burst(context, *waits, over_links);
  if (!sent) return {};
  Finding finding = describe(context, *waits, gpu_values(context, waits->gpu));
  finding.impact.how =
      spins ? "time in which its GPUs were busy, but at the power of waiting GPUs" : finding.impact.how;
  Evidence traffic = then(context, finding, left ? "net.tx_bytes" : "nvlink.tx_bytes", "", sent->then,
                          std::isnan(sent->otherwise) ? std::nullopt : std::optional(sent->otherwise), "bytes/s");
  traffic.feature = left ? "mean while the GPUs waited, with RDMA" : "mean while the GPUs waited";
  finding.evidence.push_back(std::move(traffic));
  finding.sentence =
      fmt::format("The job's GPUs on {} waited for each other for {} of {}: {}, while {} {} (otherwise {}).",
                  context.telemetry.node, duration(waits->seconds), duration(context.seconds(waits->phase.length())),
                  spins ? "busy, but at the power of waiting GPUs" : "they were idle and the cpus were free",
                  quantity(sent->then, "bytes/s"), left ? "left the node" : "went over NVLink",
                  std::isnan(sent->otherwise) ? std::string("unknown") : quantity(sent->otherwise, "bytes/s"));
  finding.runner_up = {"gpu.starved_input", fmt::format("the cpus were not full: the job used {} of {}",
                                                        number(now.cpus), number(now.cpus_allowed))};
  return {finding};
}

std::vector<Finding> check_small_kernels(const RuleContext& context) {
  std::string gpu;
  const std::vector<double> use = mean_use(context, gpu);
  const Interval phase = active_phase(use, kWorks);
  if (context.seconds(phase.length()) < context.threshold("min_seconds")) return {};
  const std::vector<double> power = mean_power(context);
  const auto limit = gpu_number(context, gpu, "power_limit");
  const auto bus = gpu_series(context, "gpu.memory_utilization", gpu);
  if (power.empty() || !limit || bus.empty()) {
    throw Unavailable("not measured: gpu.power, its limit and gpu.memory_utilization");
  }
  for (const std::string_view cause : {"gpu.thermal_throttle", "gpu.hw_slowdown", "gpu.power_cap",
                                       "gpu.clocks_locked_low", "gpu.starved_input", "gpu.starved_io"}) {
    if (found_before(context, cause)) return {};
  }
  Standstill all{.phase = phase, .idle = std::vector<bool>(use.size(), false), .gpu = gpu};
  for (std::size_t t = phase.begin; t < phase.end; ++t) all.idle[t] = true;
  const Doing now = doing(context, all);
  const double watts = usual_power(power, phase);
  const double mean = mean_inside(use, phase);
  const bool small = mean >= context.threshold("min_use") && watts < context.threshold("max_power") * *limit &&
                     mean_inside(bus, phase) < context.threshold("max_memory_use");
  if (!small || !(now.busiest >= context.threshold("min_busy"))) return {};
  Finding finding = context.finding(gpu_values(context, gpu));
  finding.severity = Severity::notice;
  finding.confidence = Confidence::possible;
  finding.instances = {gpu};
  finding.intervals = {context.span(phase.begin, phase.end)};
  finding.impact.how = "not known: the size of its kernels is not measured";
  finding.evidence.push_back(fact(context, "gpu.power", gpu, "95 % of the time below", watts, *limit, "W"));
  finding.evidence.push_back(then(context, finding, "process.cpu_time", now.process, now.busiest, 1, "cpus"));
  finding.evidence.back().feature = "mean while the GPUs worked";
  finding.sentence = fmt::format(
      "The job's GPUs on {} were busy {} % of the time, but with little work at a time: {} of {} W, {} % of the memory "
      "bus, while {} used a whole cpu to launch kernels.",
      context.telemetry.node, number(mean), number(watts), number(*limit), number(mean_inside(bus, phase)),
      context.rank_name(now.process));
  finding.runner_up = {"gpu.starved_input", "the GPUs are not idle"};
  return {finding};
}

constexpr Threshold kMinIdle{"min_idle", 0.2, "ratio",
                             "part of the time between the first and the last work in which the GPUs are idle"};
constexpr Threshold kMaxUse{"max_use", 30, "percent", "utilisation below which a GPU counts as idle"};
constexpr Threshold kMinPhase{"min_seconds", 60, "s", "shortest time from the first to the last work"};
constexpr Threshold kLostSeconds{"min_lost_seconds", 5, "s",
                                 "lost run time from which it is a finding; below it, a notice"};
constexpr Threshold kLostPercent{"min_lost_percent", 5, "percent", "lost share of the run from which it is a finding"};

const RegisteredRule kInput{{
    .id = "gpu.starved_input",
    .title = "GPUs wait for the cpus that prepare their data",
    .looks_for = "GPUs that are idle for much of the time (gpu.utilization) while the job's cpus (job.cpu_time) or one "
                 "of its processes (process.cpu_time) are fully used.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::gpu,
    .order = 99,
    .look_alikes = "gpu.starved_io,cpu.affinity_too_narrow,cpu.cfs_throttled,short pauses for checkpoints,"
                   "a process that polls for another node",
    .proof = Proof::test_double,
    .thresholds = {kMinIdle,
                   kMaxUse,
                   kMinPhase,
                   {"min_full", 0.9, "ratio", "part of the job's cpus, or of one cpu, that is used then"},
                   {"max_io_wait", 0.3, "s/s", "waiting for storage from which gpu.starved_io applies instead"},
                   {"max_traffic", 50, "MB/s", "traffic from which one full process may wait for another node"},
                   kLostSeconds,
                   kLostPercent},
    .user_remedy = {{"#SBATCH --cpus-per-task={more_cpus}   # twice as many; use one loader process fewer than cpus",
                     "job"},
                    {"DataLoader(num_workers={workers}, pin_memory=True, persistent_workers=True, prefetch_factor=4)",
                     "workers"}},
    .advice = {"Decode and augment on the GPU, or keep the prepared data; copy with non_blocking=True."},
    .verify = "gpu.utilization no longer falls below 30 % between steps, and more samples a second are trained",
    .sources = {"https://docs.pytorch.org/docs/stable/data.html",
                "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"},
    .check = check_input,
}};

const RegisteredRule kCollectives{{
    .id = "gpu.starved_comm",
    .title = "GPUs wait for each other",
    .looks_for = "GPUs that are idle, or busy (gpu.utilization) at the power (gpu.power) of waiting GPUs, for much of "
                 "the time, together with bursts of traffic (net.tx_bytes, ib.xmit_bytes, nvlink.tx_bytes).",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::gpu,
    .order = 100,
    .look_alikes = "gpu.starved_input,gpu.starved_io,phases of less power without traffic,a job with one GPU",
    .proof = Proof::test_double,
    .thresholds = {kMinIdle,
                   kMaxUse,
                   kMinPhase,
                   {"max_power", 0.6, "ratio", "part of its usual high power below which a busy GPU waits"},
                   {"max_full", 0.9, "ratio",
                    "utilisation of the job's cpus, or of one cpu, from which the cpus are the cause"},
                   {"max_io_wait", 0.3, "s/s", "waiting for storage from which gpu.starved_io applies instead"},
                   {"min_traffic", 50, "MB/s", "traffic while they wait"},
                   {"min_burst", 2, "ratio", "ratio of that traffic to the traffic at other times"},
                   kLostSeconds,
                   kLostPercent},
    .user_remedy = {{"export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET   # once: which transport, how many channels",
                     "nccl"}},
    .advice = {"Exchange less often or less at once: larger batches, gradient accumulation with no_sync(), a larger "
               "bucket_cap_mb, sharding within a node only; but check the findings about the network first."},
    .verify = "gpu.power stays near its usual level while the GPUs work, and steps are shorter",
    .sources = {"https://arxiv.org/abs/2510.26008",
                "https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html"},
    .check = check_collectives,
}};

const RegisteredRule kSmallKernels{{
    .id = "gpu.small_kernels",
    .title = "A GPU runs many very short kernels",
    .looks_for = "GPUs that are busy (gpu.utilization) with low power (gpu.power) and little memory traffic "
                 "(gpu.memory_utilization), while a process takes a whole cpu (process.cpu_time).",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::gpu,
    .order = 101,
    .look_alikes = "gpu.starved_input,gpu.starved_io,gpu.power_cap,gpu.clocks_locked_low,work that is bound by memory",
    .proof = Proof::test_double,
    .thresholds = {kMinPhase,
                   {"min_use", 40, "percent", "least mean use"},
                   {"max_power", 0.4, "ratio", "part of the power limit that is not reached"},
                   {"max_memory_use", 15, "percent", "mean use of the memory bus"},
                   {"min_busy", 0.9, "cpus", "mean use of the busiest process"}},
    .user_remedy =
        {{"nsys profile -t cuda,nvtx -d 30 {command} ...   # how long kernels are, and the gaps between them"}},
    .advice = {"Use larger batches, torch.compile or CUDA graphs, and fused optimizers."},
    .verify = "gpu.power rises and steps are shorter",
    .sources = {"https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"},
    .check = check_small_kernels,
}};

const RegisteredRule kStorage{{
    .id = "gpu.starved_io",
    .title = "GPUs wait for storage",
    .looks_for = "GPUs that are idle for much of the time (gpu.utilization) while tasks wait for io "
                 "(cgroup.io_some, pressure.io_some) and cpus are free.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::gpu,
    .order = 99,
    .look_alikes = "gpu.starved_input,short pauses for checkpoints",
    .proof = Proof::test_double,
    .thresholds = {kMinIdle,
                   kMaxUse,
                   kMinPhase,
                   {"min_io_wait", 0.3, "s/s", "waiting for storage while the GPUs are idle"},
                   {"max_full", 0.9, "ratio",
                    "utilisation of the job's cpus from which gpu.starved_input applies instead"},
                   kLostSeconds,
                   kLostPercent},
    .user_remedy = {{"srun --ntasks-per-node=1 cp -r $DATA $TMPDIR/   # to the node's own disk, before the training",
                     "job"},
                    {"cp -r $DATA $TMPDIR/   # to a disk of the node's own, before the training", "!job"}},
    .advice =
        {"Pack many small files into few large ones (tar shards, HDF5), read more ahead, and write checkpoints in "
         "the background."},
    .verify = "pressure.io_some and the pauses in gpu.utilization disappear",
    .sources = {"https://docs.hpc.kifu.hu/tasks/filemgmt.html",
                "https://github.com/awslabs/sagemaker-debugger-rulesconfig"},
    .check = check_storage,
}};

}  // namespace
}  // namespace reveal::rule::gpu_starved
