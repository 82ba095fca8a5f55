// Memory of the GPU that is allocated and freed again all the time: such a call goes through the driver, and cudaFree
// waits for the GPU. PyTorch keeps freed memory, unless that is switched off or fragmented.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/interval_finding.h"
#include "postproc/telemetry/call_facts.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::stack_allocations {
namespace {

/// Allocations and frees of one process after the start-up.
struct Allocations {
  double calls = 0;
  double seconds = 0;       // in these calls
  double at_work = 0;       // share of the time in which some were made
  std::size_t dearest = 0;  // its channel
  double dearest_seconds = 0;
};

double sum_of(std::span<const double> series, Interval at) {
  double sum = 0;
  for (std::size_t t = at.begin; t < at.end; ++t) sum += std::isnan(series[t]) ? 0 : series[t];
  return sum;
}

/// Counts windows of ten seconds, so that it does not matter how often a step comes.
double share_of_windows(const RuleContext& context, const std::vector<std::size_t>& calls, Interval at) {
  const std::size_t window = context.steps(10);
  std::size_t with = 0;
  std::size_t all = 0;
  for (std::size_t begin = at.begin; begin + window <= at.end; begin += window, ++all) {
    with += std::any_of(calls.begin(), calls.end(), [&](std::size_t channel) {
      return sum_of(context.telemetry.series(channel), {begin, begin + window}) > 0;
    });
  }
  return all == 0 ? 0 : static_cast<double>(with) / static_cast<double>(all);
}

std::map<std::string, Allocations> allocations_in(const RuleContext& context, Interval at) {
  std::map<std::string, Allocations> processes;
  std::map<std::string, std::vector<std::size_t>> calls;
  const auto of_functions = [&](std::string_view metric, const auto& add) {
    for (const std::size_t channel : context.channels(metric)) {
      const std::string& instance = context.telemetry.channels[channel].instance;
      const std::size_t slash = instance.rfind('/');
      if (slash == std::string::npos) continue;
      const bool allocates = call_facts(std::string_view(instance).substr(slash + 1)).role == CallRole::allocates;
      if (allocates) add(instance.substr(0, slash), channel, sum_of(context.telemetry.series(channel), at));
    }
  };
  of_functions("stack.calls", [&](const std::string& process, std::size_t channel, double sum) {
    processes[process].calls += sum;
    calls[process].push_back(channel);
  });
  of_functions("stack.time", [&](const std::string& process, std::size_t channel, double sum) {
    Allocations& all = processes[process];
    all.seconds += sum * 1e-9;
    if (sum * 1e-9 <= all.dearest_seconds) return;
    all.dearest = channel;
    all.dearest_seconds = sum * 1e-9;
  });
  for (auto& [process, all] : processes) all.at_work = share_of_windows(context, calls[process], at);
  return processes;
}

std::vector<Finding> check(const RuleContext& context) {
  constexpr double kMostWindows = 0.5;
  if (context.channels("stack.time").empty()) throw Unavailable("not measured: stack.time (--stack)");
  const Interval at{std::min(context.telemetry.samples, context.steps(context.threshold("min_after"))),
                    context.telemetry.samples};
  const double seconds = context.seconds(at.length());
  if (seconds < context.threshold("min_seconds")) return {};
  const auto processes = allocations_in(context, at);
  const auto worst = std::max_element(processes.begin(), processes.end(),
                                      [](const auto& a, const auto& b) { return a.second.seconds < b.second.seconds; });
  if (worst == processes.end()) return {};
  const auto& [process, all] = *worst;
  const double share = all.seconds / seconds;
  const double rate = all.calls / seconds;
  if (share < context.threshold("min_share") || rate < context.threshold("min_rate") || all.at_work < kMostWindows) {
    return {};
  }
  JobValues values;
  if (has_word(context.snapshot_value("job.libraries"), "torch_cuda")) values["torch"] = "yes";
  Finding finding = context.finding(values);
  finding.confidence = Confidence::likely;
  finding.instances = {process};
  finding.intervals = {context.span(at.begin, at.end)};
  // Threads of a process may be in such calls side by side.
  set_most_loss(context, finding, std::min(all.seconds, seconds),
                fmt::format("time in these calls of {}; cudaFree also waits for work of the GPU that is due anyway",
                            context.rank_name(process)));
  const Channel& dearest = context.telemetry.channels[all.dearest];
  finding.evidence.push_back(fact(context, "stack.time", dearest.instance, "share of the time",
                                  four_digits(all.dearest_seconds / seconds), std::nullopt, "ratio"));
  finding.evidence.push_back(
      fact(context, "stack.calls", process, "allocations and frees", four_digits(rate), std::nullopt, "/s"));
  const std::string spent = share > 1 ? fmt::format("was in {} of these calls at a time, on average", number(share))
                                      : fmt::format("spent {} % of the time in these calls", number(100 * share));
  finding.sentence = fmt::format("{} on {} allocated and freed memory of the GPU {} times a second and {}.",
                                 context.rank_name(process), context.telemetry.node, number(rate), spent);
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
                   {"min_after", 60, "s", "time of start-up, which does not count"},
                   {"min_seconds", 60, "s", "least time after it"},
                   kMinLostSeconds,
                   kMinLostPercent},
    .user_remedy = {{"unset PYTORCH_NO_CUDA_MEMORY_CACHING   # it makes PyTorch free what it could use again", "torch"},
                    {"export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True   # PyTorch then joins free memory "
                     "instead of giving it back",
                     "torch"}},
    .advice = {{"Do not call torch.cuda.empty_cache() in each step.", "torch"},
               {"Allocate once and use it again, or allocate from a pool: cudaMallocAsync.", "!torch"}},
    .admin_remedy = {},
    .verify = "the time in cudaMalloc and cudaFree after the start is near 0 (stack.time)",
    .sources = {"https://docs.pytorch.org/docs/stable/notes/cuda.html",
                "https://docs.pytorch.org/docs/stable/cuda_environment_variables.html",
                "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html"},
    .check = check,
}};

}  // namespace
}  // namespace reveal::rule::stack_allocations
