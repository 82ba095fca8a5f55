// A GPU that protects itself: its power brake, or the slowdown of its hardware without heat.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "postproc/diagnose/gpu_signals.h"
#include "postproc/words/quantity.h"

namespace reveal::rule::gpu_hw_slowdown {
namespace {

constexpr std::string_view kHardware[] = {"gpu.reason_power_brake", "gpu.reason_hw_slowdown"};

std::vector<Finding> check_hardware(const RuleContext& context) {
  auto held = held_back(context, kHardware, "gpu.reason_hw_thermal");
  std::erase_if(held, [&](const HeldBack& one) { return one.longest < context.threshold("min_seconds"); });
  if (held.empty()) return {};
  const HeldBack& worst = held.front();
  Finding finding = held_back_finding(context, worst);
  finding.severity = Severity::warning;
  const bool brake = worst.metric == kHardware[0];
  finding.sentence = fmt::format("The hardware of {} on {} slowed itself down for {} of the {} it worked{}.{}",
                                 gpu_name(context, worst.gpu), context.telemetry.node, duration(worst.seconds),
                                 duration(worst.busy_seconds),
                                 brake ? ", because an external signal activated its power brake"
                                       : ", but not because of its temperature: check the power supply and the board",
                                 more_gpus(held.size()));
  finding.runner_up = {"gpu.thermal_throttle", "heat: moments with the hardware's thermal slowdown are left out"};
  return {finding};
}

const RegisteredRule kRule{{
    .id = "gpu.hw_slowdown",
    .title = "A GPU's hardware slows itself down",
    .looks_for = "The power brake, or the hardware's slowdown without its thermal one, for several seconds in a row "
                 "while a GPU works: gpu.reason_power_brake, gpu.reason_hw_slowdown.",
    .kind = FindingKind::anomaly,
    .subsystem = Subsystem::gpu,
    .order = 16,
    .look_alikes = "gpu.thermal_throttle,a change of the performance state,a GPU that idles",
    .proof = Proof::test_double,
    .thresholds = {{"min_seconds", 3, "s", "least uninterrupted time; a change of state sets the bit for a moment"}},
    .user_remedy = {{"#SBATCH --exclude={nodes}   # until the node is repaired", "job"}},
    .advice = {{kShowAdministrators, "job"}},
    .admin_remedy = {"ipmitool sel list   # on {node}: look for entries about power or the power brake",
                     "ipmitool sdr type 'Power Supply'   # on {node}",
                     "nvidia-smi -i {gpu} -q -d PERFORMANCE,POWER",
                     {"scontrol update nodename={nodes} state=drain reason=gpu-power-brake   # changes the state in "
                      "Slurm: no new job starts there",
                      "job"}},
    .verify = {.command = "nvidia-smi -q -d PERFORMANCE",
               .where = "on the node, while the next run works",
               .expected = "\"Not Active\" for HW Slowdown"},
    .sources = {"https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html"},
    .check = check_hardware,
}};

}  // namespace
}  // namespace reveal::rule::gpu_hw_slowdown
