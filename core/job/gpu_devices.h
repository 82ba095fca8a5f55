// Which GPUs the job's processes hold open: what the batch system allocated is a promise, this is what happened.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "core/job/job.h"
#include "core/root/root_fs.h"

namespace reveal {

class GpuDevices {
 public:
  explicit GpuDevices(RootFs& fs) : fs_(fs) {}

  /// Every ten seconds, on a node that has GPUs: the descriptors of some processes, in turn.
  void look(std::int64_t now_ns, const Job& job);

  /// Numbers of NVIDIA's device files (nvidia3: 3), ever seen open, as a list: "0-1,3"; "" if there were none.
  [[nodiscard]] std::string opened() const;

 private:
  [[nodiscard]] std::string open_now(const Job& job);

  RootFs& fs_;
  std::set<int> opened_;
  std::int64_t next_ns_ = 0;
  std::size_t turn_ = 0;
  enum class Node : std::uint8_t { unknown, without, with } node_ = Node::unknown;
};

}  // namespace reveal
