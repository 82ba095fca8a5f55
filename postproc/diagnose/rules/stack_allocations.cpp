// Memory of the GPU that is allocated and freed again all the time: such a call goes through the driver, and cudaFree
// waits for the GPU. PyTorch keeps freed memory, unless that is switched off or fragmented.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "postproc/diagnose/called_functions.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::stack_allocations {
namespace {

std::vector<Finding> check(const RuleContext& context) {
  const Interval at = after_start(context);
  const auto busiest = busiest_process(context, at, calls_by_process(context, at, [](const CallFacts& facts) {
                                         return facts.role == CallRole::allocates;
                                       }));
  if (!busiest || busiest->rate < context.threshold("min_rate")) return {};
  const auto& [process, all, seconds, share, rate] = *busiest;
  Finding finding = context.finding();
  finding.confidence = Confidence::likely;
  finding.instances = {process};
  finding.intervals = {context.span(at.begin, at.end)};
  // Threads of a process may be in such calls side by side.
  set_most_loss_of_share(
      context, finding, std::min(1.0, share), all.measured_steps(), at,
      fmt::format("time in these calls of {}; cudaFree also waits for work of the GPU that is due anyway",
                  context.rank_name(process)));
  const Channel& dearest = context.telemetry.channels[*all.dearest];
  finding.evidence.push_back(fact(context, "stack.time", dearest.instance, "share of the time",
                                  four_digits(all.dearest_seconds / seconds), std::nullopt, "ratio"));
  finding.evidence.push_back(
      fact(context, "stack.calls", process, "allocations and frees", four_digits(rate), std::nullopt, "/s"));
  const std::string spent = share > 1 ? fmt::format("was in {} of these calls at a time, on average", number(share))
                                      : fmt::format("spent {} % of the time in these calls", number(100 * share));
  finding.sentence = fmt::format("{} on {} allocated and freed memory of the GPU {} times a second and {}{}.",
                                 context.rank_name(process), context.telemetry.node, number(rate), spent,
                                 part_measured(context, all.measured_steps(), at));
  finding.runner_up = {"", "allocations at the start: these went on all the time"};
  return {finding};
}

const RegisteredRule kRule{{
    .id = "stack.alloc_churn",
    .title = "GPU memory was allocated and freed all the time",
    .looks_for = "The time that a process spent in cudaMalloc, cudaFree and the allocation of pinned memory after its "
                 "start (stack.time: --stack), where such calls go on all the time.",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::gpu,
    .order = 310,
    .look_alikes = "allocations at the start of a job, a few phases that allocate anew",
    .proof = Proof::test_double,
    .thresholds = {{"min_share", 0.05, "ratio", "least share of the time in these calls"},
                   {"min_rate", 2, "/s", "least calls a second"},
                   kMinAfterStart,
                   kMinAfterSeconds,
                   kMinMeasured,
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {{"export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True   # PyTorch then joins free memory "
                     "instead of giving it back",
                     "torch"},
                    {"unset PYTORCH_NO_CUDA_MEMORY_CACHING   # if the job sets it: PyTorch then keeps freed memory",
                     "torch", kIf}},
    .advice = {{"Do not call torch.cuda.empty_cache() in each step.", "torch"},
               {"Allocate once and use it again, or allocate from a pool: cudaMallocAsync.", "!torch"}},
    .admin_remedy = {},
    .verify = {.expected = "the time in cudaMalloc and cudaFree is near 0 after the start"},
    .sources = {"https://docs.pytorch.org/docs/stable/notes/cuda.html",
                "https://docs.pytorch.org/docs/stable/cuda_environment_variables.html",
                "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::stack_allocations
