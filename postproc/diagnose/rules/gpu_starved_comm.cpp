// GPUs that wait for each other: still, or busy with kernels that spin in a collective.
#include <spdlog/fmt/fmt.h>

#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/gpu_signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::gpu_starved_comm {
namespace {

/// Bytes a second that GPUs sent over NVLink.
std::vector<double> sent_over_links(const RuleContext& context) {
  const auto sent = rate(context, "nvlink.tx_bytes", 1, "bytes/s");
  return sent ? sent->values : std::vector<double>();
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

/// Another GPU that works, or another node, for which this one can wait.
bool has_others(const RuleContext& context) {
  return working_gpus(context).size() >= 2 ||
         parse_int(context.snapshot_value("env.SLURM_JOB_NUM_NODES")).value_or(1) > 1;
}

/// Kernels of collectives keep a GPU "busy" while they wait, at the power of a GPU that does nothing.
std::optional<Standstill> spinning(const RuleContext& context) {
  constexpr double kBusy = 85;  // percent
  Standstill found;
  found.how = "time in which its GPUs were busy, but at the power of waiting GPUs";
  const std::vector<double> use = mean_gpu_use(context, found.gpu);
  const std::vector<double> power = mean_gpu_power(context);
  found.phase = active_phase(use, kGpuWorks);
  if (power.empty() || context.seconds(found.phase.length()) < context.threshold("min_seconds")) return std::nullopt;
  const double high = usual_gpu_power(power, found.phase);
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
  const Meanwhile now = meanwhile(context, *waits);
  // A process that polls for its neighbours takes a whole cpu: a busy cpu is no evidence while a waiting kernel holds
  // the GPU.
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
  // Collectives receive about as much as they send; a checkpoint for a file server does not.
  const double received = left ? mean_then(*waits, came_in(context)) : sent->then;
  if (received * context.threshold("max_skew") < sent->then) return {};
  Finding finding = standstill_finding(context, *waits, gpu_values(context, waits->gpu));
  Evidence traffic = fact_then(context, finding, left ? "net.tx_bytes" : "nvlink.tx_bytes", "", sent->then,
                               std::isnan(sent->otherwise) ? std::nullopt : std::optional(sent->otherwise), "bytes/s");
  traffic.feature = left ? "mean while the GPUs waited, with RDMA" : "mean while the GPUs waited";
  finding.evidence.push_back(std::move(traffic));
  if (std::isnan(now.io_wait) || std::isnan(received)) finding.confidence = Confidence::possible;
  const GpuWords gpus = gpu_words(context);
  finding.sentence =
      fmt::format("{} waited for {} for {} of {}: {} {} {}, while {} {} (otherwise {}).", gpus.subject,
                  gpus.they == "it" ? "those of other nodes" : "each other", duration(waits->seconds),
                  duration(context.seconds(waits->phase.length())), gpus.they, gpus.were,
                  spins ? "busy, but at the power of waiting GPUs" : "idle and the cpus were free",
                  quantity(sent->then, "bytes/s"), left ? "left the node" : "went over NVLink",
                  std::isnan(sent->otherwise) ? std::string("unknown") : quantity(sent->otherwise, "bytes/s"));
  finding.runner_up = {"gpu.starved_input", fmt::format("the cpus were not full: the job used {} of {}",
                                                        number(now.cpus), number(now.cpus_allowed))};
  return {finding};
}

const RegisteredRule kRule{{
    .id = "gpu.starved_comm",
    .title = "GPUs wait for each other",
    .looks_for = "GPUs that are idle, or busy (gpu.utilization) at the power (gpu.power) of waiting GPUs, for much of "
                 "the time, together with bursts of traffic (net.tx_bytes, ib.xmit_bytes, nvlink.tx_bytes) in both "
                 "directions.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::gpu,
    .order = 100,
    .look_alikes = "gpu.starved_input,gpu.starved_io,phases of less power without traffic,a checkpoint that goes to a "
                   "file server,a job with one GPU",
    .proof = Proof::test_double,
    .thresholds = {kMinGpuIdle,
                   kMaxGpuUse,
                   kMinGpuPhase,
                   {"max_power", 0.6, "ratio", "part of its usual high power below which a busy GPU waits"},
                   {"max_full", 0.9, "ratio",
                    "utilisation of the job's cpus, or of one cpu, from which the cpus are the cause"},
                   {"max_io_wait", 0.3, "s/s", "waiting for storage from which gpu.starved_io applies instead"},
                   {"min_traffic", 50, "MB/s", "traffic while they wait"},
                   {"min_burst", 2, "ratio", "ratio of that traffic to the traffic at other times"},
                   {"max_skew", 3, "ratio",
                    "ratio of sent to received traffic above which it does not come from a collective"},
                   kMinGpuLostSeconds,
                   kMinGpuLostPercent},
    .user_remedy = {{"export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET   # once: which transport, how many channels",
                     "nccl"}},
    .advice = {"Exchange less often or less at once: larger batches, gradient accumulation with no_sync(), a larger "
               "bucket_cap_mb, sharding within a node only; but check the findings about the network first."},
    .verify = {.expected = "gpu.power stays near its usual level while the GPUs work"},
    .sources = {"https://arxiv.org/abs/2510.26008",
                "https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html"},
    .check = check_collectives,
}};

}  // namespace
}  // namespace reveal::rule::gpu_starved_comm
