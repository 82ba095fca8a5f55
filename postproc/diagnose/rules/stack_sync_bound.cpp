// A program that waits for the GPU many times a second: after each wait the GPU has no work until the next launch.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/not_measured.h"
#include "postproc/diagnose/called_functions.h"
#include "postproc/diagnose/gpu_signals.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::stack_sync_bound {
namespace {

/// Copies to pinned memory return at once, and are not counted with the others.
bool waits(const CallFacts& facts) {
  return facts.role == CallRole::waits_for_gpu && !facts.function.ends_with("Async");
}

/// The calls of the runtime, or of the driver: one of the runtime is one of the driver, too.
std::map<std::string, CallSums> waits_in(const RuleContext& context, Interval at) {
  const auto of_library = [&](CallLibrary library) {
    return calls_by_process(context, at,
                            [library](const CallFacts& facts) { return facts.library == library && waits(facts); });
  };
  std::map<std::string, CallSums> all = of_library(CallLibrary::cuda);
  for (auto& [process, driver] : of_library(CallLibrary::cuda_driver)) {
    CallSums& known = all[process];
    if (driver.seconds > known.seconds) known = driver;
  }
  return all;
}

/// Mean use of the GPUs that did anything, in percent; NaN if none did. `first` gets the first of them.
double mean_use(const RuleContext& context, Interval at, std::string& first) {
  constexpr double kAnything = 1;  // percent
  double sum = 0;
  double count = 0;
  for (const std::string& gpu : gpus_measured(context)) {
    const double use = mean_inside(gpu_series(context, "gpu.utilization", gpu), at);
    if (!(use >= kAnything)) continue;
    if (first.empty()) first = gpu;
    sum += use;
    count += 1;
  }
  return count > 0 ? sum / count : kNaN;
}

std::vector<Finding> check(const RuleContext& context) {
  const Interval at = after_start(context);
  const auto busiest = busiest_process(context, at, waits_in(context, at));
  if (!busiest || busiest->rate < context.threshold("min_rate")) return {};
  const auto& [process, all, seconds, share, rate] = *busiest;
  std::string gpu;
  const double use = mean_use(context, at, gpu);
  if (!(use <= context.threshold("max_use"))) return {};
  Finding finding = context.finding();
  finding.confidence = Confidence::likely;
  finding.instances = {process};
  finding.intervals = {context.span(at.begin, at.end)};
  set_most_loss(context, finding, (1 - use / 100) * context.seconds(at.length()), "time in which the GPUs had no work");
  finding.severity = std::min(finding.severity, Severity::warning);  // a bound, which may be far from the cost
  const Channel& dearest = context.telemetry.channels[*all.dearest];
  finding.evidence.push_back(fact(context, "stack.time", dearest.instance, "share of the time",
                                  four_digits(all.dearest_seconds / seconds), std::nullopt, "ratio"));
  finding.evidence.push_back(
      fact(context, "stack.calls", process, "calls that wait", four_digits(rate), std::nullopt, "/s"));
  finding.evidence.push_back(
      fact(context, "gpu.utilization", gpu, "mean of the GPUs", four_digits(use), std::nullopt, "percent"));
  add_durations(context, dearest.instance, at, finding);
  finding.sentence = fmt::format(
      "{} on {} waited for its GPU {} times a second, {} % of the time in all, and the job's GPUs had no work {} % of "
      "the time: after each wait they are idle until the next launch{}.",
      context.rank_name(process), context.telemetry.node, number(rate), number(100 * std::min(1.0, share)),
      number(100 - use), part_measured(context, all.measured_steps(), at));
  finding.runner_up = {"gpu.starved_input", "the process waited in calls of CUDA, and not for its data"};
  return {finding};
}

const RegisteredRule kRule{{
    .id = "stack.sync_bound",
    .title = "The program waits for the GPU many times a second",
    .looks_for = "A process that spends a part of its time in many calls that wait for the GPU (cudaStreamSynchronize, "
                 "cudaMemcpy and others; stack.calls, stack.time: --stack), while the GPUs are idle for a part of the "
                 "time (gpu.utilization).",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::gpu,
    .order = 98,  // such a wait takes a whole cpu, as preparing data does
    .look_alikes = "gpu.starved_input,GPUs that are busy all the time,one wait for each step",
    .proof = Proof::test_double,
    .thresholds = {{"min_share", 0.2, "ratio", "least share of the time in these calls"},
                   {"min_rate", 20, "/s", "least calls a second"},
                   {"max_use", 80, "percent", "mean use of the GPUs above which the waits cost little"},
                   kMinAfterStart,
                   kMinAfterSeconds,
                   kMinMeasured,
                   kMinGpuLostSeconds,
                   kMinGpuLostPercent},
    .user_remedy =
        {{"nsys profile -t cuda,osrt -y {profile_delay} -d 30 --kill=none   # before your program: records 30 s from "
          "second {profile_delay} on, does not end the program, and shows which calls wait and the gaps after them"}},
    .advice = {{"In the program: torch.cuda.set_sync_debug_mode(\"warn\") names each line that waits for the GPU.",
                "torch"},
               {"Read losses and metrics once in 100 steps: item(), cpu() and print() of a tensor wait for the GPU.",
                "torch"},
               {"Copy from pinned memory with non_blocking=True.", "torch"},
               {"Order streams by cudaEventRecord and cudaStreamWaitEvent instead of waiting in the program.",
                "!torch"}},
    .admin_remedy = {},
    .verify = {.expected = "gpu.utilization is higher, with fewer calls of cudaStreamSynchronize a second"},
    .sources = {"https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
                "https://docs.pytorch.org/docs/stable/generated/torch.cuda.set_sync_debug_mode.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::stack_sync_bound
