// Whether a job communicates through NCCL, and with which nodes.
#pragma once

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/rule.h"

namespace reveal {

/// The library itself, or PyTorch's for CUDA in a job of several nodes, which brings it along.
[[nodiscard]] inline bool uses_nccl(const RuleContext& context) {
  const std::string libraries = context.snapshot_value("job.libraries");
  if (libraries.empty()) throw Unavailable("not measured: the libraries the job loaded (job.libraries)");
  return has_word(libraries, "nccl") || has_word(libraries, "torch_cuda");
}

[[nodiscard]] inline bool on_one_node(const RuleContext& context) {
  return context.snapshot_value("env.SLURM_JOB_NUM_NODES") == "1";
}

/// "none", or their numbers; throws Unavailable if they were not read.
[[nodiscard]] inline std::string opened_rdma_devices(const RuleContext& context) {
  std::string opened = context.snapshot_value("job.rdma_opened");
  if (opened.empty()) throw Unavailable("not measured: the RDMA devices the job opened (job.rdma_opened)");
  return opened;
}

}  // namespace reveal
