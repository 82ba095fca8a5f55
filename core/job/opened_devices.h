// The GPUs and RDMA devices that the job's processes hold open. An allocation or an environment variable may not match
// the devices that a job really uses; open devices do.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/job/job.h"
#include "core/kernel_text/kernel_tree.h"

namespace reveal {

/// A PCI device that a kernel driver makes usable under /dev/dri.
struct RenderDevice {
  int minor = -1;       // 128 of /dev/dri/renderD128
  std::string address;  // on the PCI bus
};
/// The devices of one driver ("amdgpu"), in rising order. Parts of a divided GPU, which are no PCI devices, and GPUs
/// that are a part of the processor are left out.
[[nodiscard]] std::vector<RenderDevice> render_devices(KernelTree& fs, std::string_view driver);

class OpenedDevices {
 public:
  /// `recorded_as`: the name of its answers in a recording.
  explicit OpenedDevices(KernelTree& fs, std::string recorded_as = "@job/devices")
      : fs_(fs), recorded_as_(std::move(recorded_as)) {}

  /// Every ten seconds, on a node that has such devices: the descriptors of some processes, in turn.
  void look(std::int64_t now_ns, const Job& job);

  /// Numbers of the device files of GPUs (nvidia3: 3; of AMD's and Intel's GPUs renderD129: 129), ever seen open, as a
  /// list: "0-1,3"; "" if there were none.
  [[nodiscard]] std::string gpus() const;
  /// The same of NVIDIA's GPUs.
  [[nodiscard]] const std::set<int>& nvidia_gpus() const noexcept { return gpus_; }
  /// The same of the GPUs of AMD and Intel.
  [[nodiscard]] const std::set<int>& render_gpus() const noexcept { return render_gpus_; }
  /// The same of the verbs devices (uverbs0: 0), by which data are moved without the kernel; "none" if processes were
  /// looked at and had none, "" if there was nothing to look at.
  [[nodiscard]] std::string rdma() const;

 private:
  [[nodiscard]] std::string open_now(const Job& job);

  KernelTree& fs_;
  std::string recorded_as_;
  std::set<int> gpus_;
  std::set<int> render_gpus_;
  std::set<int> render_minors_;  // on the node; the render devices of other drivers may belong to NVIDIA's GPUs
  std::set<int> rdma_;
  std::int64_t next_ns_ = 0;
  std::size_t turn_ = 0;
  bool looked_at_node_ = false;
  bool has_gpus_ = false;
  bool has_rdma_ = false;
  bool looked_at_job_ = false;
};

}  // namespace reveal
