// The GPUs and RDMA devices that the job's processes hold open. An allocation or an environment variable may not match
// the devices that a job really uses; open devices do.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "core/job/job.h"
#include "core/kernel_text/kernel_tree.h"

namespace reveal {

class OpenedDevices {
 public:
  explicit OpenedDevices(KernelTree& fs) : fs_(fs) {}

  /// Every ten seconds, on a node that has such devices: the descriptors of some processes, in turn.
  void look(std::int64_t now_ns, const Job& job);

  /// Numbers of NVIDIA's device files (nvidia3: 3), ever seen open, as a list: "0-1,3"; "" if there were none.
  [[nodiscard]] std::string gpus() const;
  /// The same of the verbs devices (uverbs0: 0), by which data are moved without the kernel; "none" if processes were
  /// looked at and had none, "" if there was nothing to look at.
  [[nodiscard]] std::string rdma() const;

 private:
  [[nodiscard]] std::string open_now(const Job& job);

  KernelTree& fs_;
  std::set<int> gpus_;
  std::set<int> rdma_;
  std::int64_t next_ns_ = 0;
  std::size_t turn_ = 0;
  bool looked_at_node_ = false;
  bool has_gpus_ = false;
  bool has_rdma_ = false;
  bool looked_at_job_ = false;
};

}  // namespace reveal
