// A fabric that cannot reach the memory of GPUs.
#include <spdlog/fmt/fmt.h>

#include <set>

#include "hdf5schema/basics/error.h"
#include "postproc/diagnose/gpu_signals.h"
#include "postproc/diagnose/nccl_use.h"

namespace reveal::rule::nccl_gdr {
namespace {

/// nvidia_peermem serves cards of NVIDIA (Mellanox) only; others bring a way of their own.
bool only_nvidia_cards(const RuleContext& context) {
  constexpr std::string_view kPrefix = "rdma.";
  std::set<std::string> devices;
  std::set<std::string> nvidia;
  for (const Snapshot* facts : {&context.begin, &context.end}) {
    for (const auto& [key, value] : *facts) {
      if (!key.starts_with(kPrefix)) continue;
      const std::string device = key.substr(kPrefix.size(), key.find('.', kPrefix.size()) - kPrefix.size());
      devices.insert(device);
      const bool type = key == std::string(kPrefix) + device + ".type" && value.starts_with("MT");
      if (type || device.starts_with("mlx5_")) nvidia.insert(device);
    }
  }
  return !devices.empty() && nvidia == devices;
}

std::vector<Finding> check_gdr(const RuleContext& context) {
  const std::string module = context.snapshot_value("gpu_driver.kernel_module");
  if (module.empty()) throw Unavailable("not known: the kernel module of the NVIDIA driver");
  const std::string opened = context.snapshot_value("job.rdma_opened");
  if (opened.empty()) throw Unavailable("not measured: the RDMA devices the job opened (job.rdma_opened)");
  if (opened == "none" || on_one_node(context)) return {};
  if (!context.values().contains("nccl") || !only_nvidia_cards(context)) return {};
  // The open kernel module gives its memory to the fabric by DMA-BUF, and needs no other one.
  const bool peermem = context.snapshot_value("gpu_driver.peer_memory") == "loaded";
  if (module == "open" || peermem) return {};
  const bool by_slurm = other_nodes(context) == OtherNodes::by_slurm;
  Finding finding = context.finding();
  finding.severity = Severity::notice;
  finding.confidence = by_slurm ? Confidence::likely : Confidence::possible;
  finding.intervals = {context.span(0, context.telemetry.samples)};
  finding.impact.how = "not known: the traffic through host memory was not measured";
  finding.evidence.push_back(fact(context, "gpu_driver.peer_memory", "", "modules that are loaded", 0, 1, "count"));
  finding.sentence = fmt::format(
      "NCCL cannot move data from the GPUs of {} directly to the fabric: nvidia_peermem is not loaded, and the "
      "driver's kernel module is not the open one. Data between nodes then goes through host memory.",
      context.telemetry.node);
  finding.runner_up = {"nccl.socket_fallback", "the job's processes have RDMA devices open: the fabric is used"};
  return {finding};
}

const RegisteredRule kGdr{{
    .id = "nccl.gdr_unavailable",
    .title = "NCCL cannot move data between GPUs and the fabric directly",
    .looks_for = "A job of several nodes that uses NCCL over RDMA (job.libraries, job.rdma_opened) on a node without "
                 "nvidia_peermem and without the open kernel module (gpu_driver.*).",
    .kind = FindingKind::audit,
    .subsystem = Subsystem::network,
    .order = 42,
    .look_alikes = "nccl.socket_fallback,the open kernel module with DMA-BUF,cards of other makers",
    .proof = Proof::test_double,
    .user_remedy = {"export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET   # for one run: look for lines with GDRDMA"},
    .admin_remedy = {"modprobe nvidia_peermem   # changes the node until its next boot: loads the module",
                     "echo nvidia_peermem > /etc/modules-load.d/nvidia_peermem.conf   # changes the node: loads the "
                     "module at each boot",
                     {"If it does not load (RDMA drivers of the kernel itself): install the open kernel modules of the "
                      "driver; they use DMA-BUF, from Linux 5.12 on.",
                      kIf}},
    .verify = {.expected = "NCCL's lines of NET/IB, with NCCL_DEBUG=INFO, end in GDRDMA"},
    .sources = {"https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
                "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-rdma.html"},
    .check = check_gdr,
}};

}  // namespace
}  // namespace reveal::rule::nccl_gdr
