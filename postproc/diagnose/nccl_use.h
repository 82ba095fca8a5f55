// Whether a job communicates through NCCL, and with which nodes.
#pragma once

#include <algorithm>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/lossy_paths.h"
#include "postproc/diagnose/rule.h"

namespace reveal {

/// The library itself, or PyTorch's for CUDA in a job of several nodes, which brings it along.
[[nodiscard]] inline bool uses_nccl(const RuleContext& context) {
  const std::string libraries = context.snapshot_value("job.libraries");
  if (libraries.empty()) throw Unavailable("not measured: the libraries the job loaded (job.libraries)");
  return has_word(libraries, "nccl") || has_word(libraries, "torch_cuda");
}

/// PyTorch's packages load both libraries on nodes without GPUs, too, and sockets are then of something else.
[[nodiscard]] inline bool opened_gpus(const RuleContext& context) {
  const std::string opened = context.snapshot_value("job.gpus_opened");
  return !opened.empty() && opened != "none";
}

[[nodiscard]] inline bool on_one_node(const RuleContext& context) {
  return context.snapshot_value("env.SLURM_JOB_NUM_NODES") == "1";
}

/// The job's sockets had an end on another host. That may be another node of the job, or a client of a server.
[[nodiscard]] inline bool has_remote_peers(const RuleContext& context) {
  const std::vector<std::string> own = addresses_in(context.begin);
  const auto channels = context.channels("tcp.peer.segments_sent");
  return std::any_of(channels.begin(), channels.end(), [&](std::size_t channel) {
    const std::string& peer = context.telemetry.channels[channel].instance;
    return !is_loopback(peer) && std::find(own.begin(), own.end(), peer) == own.end();
  });
}

/// How it is known that the job has other nodes; throws Unavailable if it is not.
enum class OtherNodes : std::uint8_t { by_slurm, by_peers };
[[nodiscard]] inline OtherNodes other_nodes(const RuleContext& context) {
  if (!context.snapshot_value("env.SLURM_JOB_NUM_NODES").empty()) return OtherNodes::by_slurm;
  if (has_remote_peers(context)) return OtherNodes::by_peers;
  throw Unavailable("not known: whether the job has several nodes (no Slurm, and no peers of its sockets: tcp.peer.*)");
}

/// "none", or their numbers; throws Unavailable if they were not read.
[[nodiscard]] inline std::string opened_rdma_devices(const RuleContext& context) {
  std::string opened = context.snapshot_value("job.rdma_opened");
  if (opened.empty()) throw Unavailable("not measured: the RDMA devices the job opened (job.rdma_opened)");
  return opened;
}

}  // namespace reveal
