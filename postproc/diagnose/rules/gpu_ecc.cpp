// Errors of a GPU's memory while the job ran.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <map>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/event_count.h"
#include "postproc/diagnose/gpu_signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::gpu_ecc {
namespace {

bool ever_set(const RuleContext& context, std::string_view metric, const std::string& gpu) {
  const auto series = gpu_series(context, metric, gpu);
  return std::any_of(series.begin(), series.end(), [](double value) { return value >= 1; });
}

constexpr std::string_view kUncorrected = "gpu.ecc_uncorrected";

struct MemoryState {
  std::string_view metric;
  std::string_view words;
  Severity severity;
};
// A pending row or page costs neither speed nor results: it waits for the next reset.
constexpr std::array kMemoryStates = {
    MemoryState{"gpu.remap_failed", "could not replace a bad row with a spare one", Severity::warning},
    MemoryState{"gpu.remap_pending", "has a bad row of memory that is replaced when the GPU is reset",
                Severity::notice},
    MemoryState{"gpu.retired_pages_pending", "has a bad page of memory that is retired when the GPU is reset",
                Severity::notice}};

/// The job's GPUs whose memory errors are known. The driver reports them of GPUs that are divided by MIG, too, which
/// have no use as a whole.
std::vector<std::string> gpus_with_memory(const RuleContext& context) {
  std::vector<std::string> gpus;
  const auto add = [&](std::string_view metric) {
    for (const std::size_t channel : context.channels(metric)) {
      const std::string& gpu = context.telemetry.channels[channel].instance;
      const bool fresh = std::find(gpus.begin(), gpus.end(), gpu) == gpus.end();
      if (fresh && is_gpu_of_job(context.begin, context.end, gpu)) gpus.push_back(gpu);
    }
  };
  add(kUncorrected);
  for (const MemoryState& state : kMemoryStates) add(state.metric);
  if (gpus.empty())
    throw Unavailable("not measured: memory errors of GPUs (no ECC, or the driver does not report them)");
  return gpus;
}

std::vector<Finding> check_memory(const RuleContext& context) {
  const std::vector<std::string> gpus = gpus_with_memory(context);
  std::vector<Finding> findings;
  std::map<std::string, EventCount> uncorrected;
  if (!context.channels(kUncorrected).empty()) {
    for (const EventCount& count : counted_events(context, kUncorrected)) {
      uncorrected.emplace(context.telemetry.channels[count.channel].instance, count);
    }
  }
  for (const std::string& gpu : gpus) {
    if (const auto found = uncorrected.find(gpu); found != uncorrected.end()) {
      const EventCount& count = found->second;
      Finding finding = gpu_finding(context, gpu, bad_for_jobs(context, {{"wrong_results", "yes"}}));
      finding.severity = Severity::critical;
      finding.intervals = {context.span(count.at.begin, count.at.end)};
      finding.impact.how = "not known: results computed from this memory may be wrong";
      finding.evidence.push_back(evidence_of(context, count));
      finding.evidence.back().detectors = {Method::driver_counter};
      finding.sentence =
          fmt::format("The memory of {} on {} had {} that could not be corrected while {} ran.", gpu_name(context, gpu),
                      context.telemetry.node, counted(count.total, "error"), context.watched());
      findings.push_back(std::move(finding));
      continue;
    }
    for (const MemoryState& state : kMemoryStates) {
      if (!ever_set(context, state.metric, gpu)) continue;
      const bool failed = state.severity >= Severity::warning;
      Finding finding = gpu_finding(context, gpu, failed ? bad_for_jobs(context) : JobValues{});
      finding.severity = state.severity;
      finding.impact.how = failed ? fmt::format("none seen: it had no error while {} ran", context.watched())
                                  : "none: memory that is to be replaced affects neither speed nor results";
      finding.evidence.push_back(fact(context, std::string(state.metric), gpu, "value", 1, 0, "count"));
      finding.sentence = fmt::format("{} on {} {}.", gpu_name(context, gpu), context.telemetry.node, state.words);
      finding.runner_up = {"", "corrected errors alone: this rule ignores them"};
      findings.push_back(std::move(finding));
      break;
    }
  }
  return findings;
}

const RegisteredRule kEcc{{
    .id = "gpu.ecc_remap",
    .title = "A GPU's memory has errors",
    .looks_for =
        "Memory errors that were not corrected (gpu.ecc_uncorrected), and bad memory that waits to be replaced "
        "or cannot be (gpu.remap_pending, gpu.remap_failed, gpu.retired_pages_pending).",
    .kind = FindingKind::audit,
    .states = Stated::fact,
    .subsystem = Subsystem::gpu,
    .order = 13,
    .look_alikes = "corrected errors alone",
    .proof = Proof::test_double,
    .checks_node = true,
    .user_remedy = {{"#SBATCH --exclude={nodes}   # until the GPU was reset or replaced", "avoid_node"}},
    .advice = {{"After uncorrected errors, start again from a checkpoint that is older than the errors.",
                "wrong_results"}},
    .admin_remedy =
        {{"nvidia-smi -i {gpu} -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT", "nvidia"},
         {"amd-smi metric -g {gpu} --ecc-blocks   # on {node}", "amd"},
         {"amd-smi bad-pages -g {gpu}   # on {node}", "amd"},
         {"scontrol update nodename={nodes} state=drain reason=gpu-ecc   # changes the state in Slurm: no new job "
          "starts there",
          "avoid_node"},
         {"nvidia-smi -r -i {gpu}   # changes the GPU, only when nothing runs there: replaces pending memory; if that "
          "failed: RMA; with NVSwitch, omit -i to reset all GPUs together",
          "nvidia"},
         {"amd-smi reset -g {gpu} --gpureset   # changes the GPU, only when nothing runs there; if errors return: RMA",
          "amd"}},
    .verify = {.expected = "gpu.remap_pending is 0, and gpu.ecc_uncorrected does not grow"},
    .sources = {"https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html",
                "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html",
                "https://docs.kernel.org/gpu/amdgpu/ras.html"},
    .check = check_memory,
}};

}  // namespace
}  // namespace reveal::rule::gpu_ecc
