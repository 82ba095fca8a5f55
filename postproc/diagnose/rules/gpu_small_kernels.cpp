// GPUs that work in many small pieces.
#include <spdlog/fmt/fmt.h>

#include <optional>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/found_before.h"
#include "postproc/diagnose/gpu_signals.h"
#include "postproc/diagnose/kernel_launches.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::gpu_small_kernels {
namespace {

/// GPU time of each launch, in nanoseconds.
double time_of_launch(const RuleContext& context, double use, double launches) {
  return 1e9 * use / 100 * static_cast<double>(working_gpus(context).size()) / launches;
}

std::vector<Finding> check_small_kernels(const RuleContext& context) {
  std::string gpu;
  const std::vector<double> use = mean_gpu_use(context, gpu);
  const Interval phase = working_phase(use);
  if (context.seconds(phase.length()) < context.threshold("min_seconds")) return {};
  const std::vector<double> power = mean_gpu_power(context);
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
  const Meanwhile now = meanwhile(context, all);
  const double watts = usual_gpu_power(power, phase);
  const double mean = mean_inside(use, phase);
  const auto launches = kernel_launches(context, phase);
  const bool waits_for_them = launches && launches->share >= context.threshold(kMinLaunching.name);
  const bool small = (waits_for_them || mean >= context.threshold("min_use")) &&
                     watts < context.threshold("max_power") * *limit &&
                     mean_inside(bus, phase) < context.threshold("max_memory_use");
  if (!small || !(now.busiest >= context.threshold("min_busy"))) return {};
  const double each = launches ? time_of_launch(context, mean, launches->rate) : 0;
  if (each > context.threshold("max_kernel") * 1e3) return {};
  Finding finding = context.finding(gpu_values(context, gpu));
  finding.severity = Severity::notice;
  finding.confidence = launches ? Confidence::likely : Confidence::possible;
  finding.instances = {gpu};
  finding.intervals = {context.span(phase.begin, phase.end)};
  finding.impact.how = launches ? "not known: the gaps between its kernels are not measured"
                                : "not known: the size of its kernels is not measured";
  finding.evidence.push_back(fact(context, "gpu.power", gpu, "95 % of the time below", watts, *limit, "W"));
  finding.evidence.push_back(
      fact_then(context, finding, "process.cpu_time", now.process, now.busiest, std::nullopt, "cpus"));
  finding.evidence.back().feature = "mean while the GPUs worked";
  const GpuWords gpus = gpu_words(context);
  finding.sentence = fmt::format(
      "{} {} busy {} % of the time, but with little work at a time: {} of {} W, {} % of the memory bus, while {} used "
      "{}.",
      gpus.subject, gpus.were, number(mean), number(watts), number(*limit), number(mean_inside(bus, phase)),
      context.rank_name(now.process), counted(now.busiest, "cpu"));
  if (launches) {
    finding.evidence.push_back(fact_then(context, finding, "stack.calls", "", launches->rate, std::nullopt, "/s"));
    finding.evidence.back().feature = "launches of kernels while the GPUs worked";
    finding.sentence += fmt::format(" The job's processes launched {} kernels a second, of {} GPU time each.",
                                    number(launches->rate), quantity(each, "ns"));
    if (waits_for_them) {
      finding.evidence.push_back(
          fact_then(context, finding, "stack.time", launches->process, launches->share, std::nullopt, "s/s"));
      finding.evidence.back().feature = "in launches of kernels while they were counted";
      finding.sentence += fmt::format(" The launches took {} % of the time of {}.", number(100 * launches->share),
                                      context.rank_name(launches->process));
    }
  }
  finding.runner_up = {"gpu.starved_input",
                       waits_for_them ? "the process that launches is busy with that" : "the GPUs are not idle"};
  return {finding};
}

const RegisteredRule kRule{{
    .id = "gpu.small_kernels",
    .title = "A GPU runs many very short kernels",
    .looks_for = "GPUs that are busy (gpu.utilization) with low power (gpu.power) and little memory traffic "
                 "(gpu.memory_utilization), while a process takes a whole cpu (process.cpu_time); where launches are "
                 "counted (stack.calls, stack.time: --stack), only if kernels are short, and also GPUs that are hardly "
                 "busy beside a process that launches kernels for much of its time.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::gpu,
    .order = 101,
    .look_alikes = "gpu.starved_input,gpu.starved_io,gpu.power_cap,gpu.clocks_locked_low,work that is bound by memory",
    .proof = Proof::recorded,
    .thresholds = {kMinGpuPhase,
                   {"min_use", 40, "percent", "least mean use, unless min_launching is reached"},
                   {"max_power", 0.4, "ratio", "part of the power limit that is not reached"},
                   {"max_memory_use", 15, "percent", "mean use of the memory bus"},
                   {"min_busy", 0.9, "cpus", "mean use of the busiest process"},
                   kMinLaunching,
                   {"max_kernel", 100, "us", "mean GPU time of a kernel, where launches are counted (--stack)"}},
    .user_remedy = {{"nsys profile -t cuda,nvtx -y {profile_delay} -d 30 --kill=none   # before your program: records "
                     "30 s from second {profile_delay} on, does not end the program, and shows how long kernels are "
                     "and the gaps between them"}},
    .advice =
        {{"In the program: torch.compile(model, mode=\"reduce-overhead\") launches many kernels as one CUDA graph.",
          "torch"},
         {"Use larger batches, and fused optimizers: torch.optim.AdamW(parameters, fused=True).", "torch", kOr},
         {"Use larger batches, and CUDA graphs (cudaGraphLaunch).", "!torch"}},
    .verify = {.expected = "gpu.power is higher, and steps are shorter"},
    .sources = {"https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"},
    .check = check_small_kernels,
}};

}  // namespace
}  // namespace reveal::rule::gpu_small_kernels
