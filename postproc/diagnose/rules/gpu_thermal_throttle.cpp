// Heat that holds the clocks of a GPU down while it works.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "postproc/diagnose/gpu_signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::gpu_thermal_throttle {
namespace {

constexpr std::string_view kHeat[] = {"gpu.reason_sw_thermal", "gpu.reason_hw_thermal"};
constexpr Threshold kMinShare{"min_share", 0.01, "ratio", "least share of the time a GPU worked"};
constexpr Threshold kSevereShare{"severe_share", 0.05, "ratio", "share from which it is a warning"};

std::vector<Finding> check_heat(const RuleContext& context) {
  auto held = held_back(context, kHeat);
  std::erase_if(held, [&](const HeldBack& one) {
    return one.share() < context.threshold("min_share") || one.seconds < context.threshold("min_seconds");
  });
  if (held.empty()) return {};
  const HeldBack& worst = held.front();
  Finding finding = held_back_finding(context, worst);
  finding.severity = worst.share() >= context.threshold("severe_share") ? Severity::warning : Severity::notice;
  const auto hot = gpu_series(context, "gpu.temperature", worst.gpu);
  const double degrees = mean_inside(hot, hot.empty() ? Interval{} : worst.at);
  const auto limit = gpu_number(context, worst.gpu, "slowdown_temperature");
  if (!std::isnan(degrees)) {
    finding.evidence.push_back(fact(context, "gpu.temperature", worst.gpu, "mean", degrees, limit, "Cel"));
  }
  finding.sentence = fmt::format("Heat lowered the clocks of {} on {} for {} of the {} it worked ({} %).{}",
                                 gpu_name(context, worst.gpu), context.telemetry.node, duration(worst.seconds),
                                 duration(worst.busy_seconds), number(100 * worst.share()), more_gpus(held.size()));
  finding.runner_up = {"gpu.power_cap", "a power limit: the driver has a separate reason for it"};
  return {finding};
}

const RegisteredRule kRule{{
    .id = "gpu.thermal_throttle",
    .title = "Heat slows a GPU down",
    .looks_for =
        "Time in which the driver or the hardware lowers the clocks of a working GPU because of its temperature: "
        "gpu.reason_sw_thermal, gpu.reason_hw_thermal.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::gpu,
    .order = 17,
    .look_alikes = "gpu.power_cap,gpu.hw_slowdown,a GPU that idles",
    .proof = Proof::test_double,
    .thresholds = {kMinShare, kSevereShare, {"min_seconds", 3, "s", "least time with that reason"}},
    .user_remedy = {{"#SBATCH --exclude={nodes}   # until the node is cool again", "job"}},
    .advice = {{kShowAdministrators, "job"}},
    .admin_remedy = {{"nvidia-smi -i {gpu} -q -d TEMPERATURE,PERFORMANCE   # under load: limits and reasons", "nvidia"},
                     {"amd-smi metric -g {gpu} --temperature --clock   # on {node}, under load", "amd"},
                     {"xpu-smi stats -d {gpu}   # on {node}, under load: temperatures and frequency", "intel"},
                     "ipmitool sdr type Fan   # on {node}",
                     "ipmitool sdr type Temperature   # on {node}: inlet",
                     {"scontrol update nodename={nodes} state=drain reason=gpu-heat   # changes the state in Slurm: no "
                      "new job starts there",
                      "job"}},
    .verify = {.expected = "gpu.reason_sw_thermal and gpu.reason_hw_thermal are 0 under the same load"},
    .sources = {"https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html",
                "https://docs.kernel.org/gpu/amdgpu/thermal.html"},
    .check = check_heat,
}};

}  // namespace
}  // namespace reveal::rule::gpu_thermal_throttle
