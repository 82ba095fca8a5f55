// The network namespaces the job's processes live in: /proc/net shows only the reader's own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/job/job.h"
#include "core/root/root_fs.h"

namespace reveal {

struct NetNamespace {
  std::string name;    // "" for the job's first, then "ns2", "ns3"
  std::string folder;  // "/proc/net" or "/proc/4711/net"
  std::string inode;   // "net:[4026531840]"
};

class NetNamespaces {
 public:
  NetNamespaces(RootFs& fs, const Job* job);
  void update(std::int64_t now_ns);

  /// Only grows. A file opened below `folder` keeps its namespace when the process ends.
  [[nodiscard]] const std::vector<NetNamespace>& list() const noexcept { return list_; }

 private:
  void consider(int pid);

  RootFs& fs_;
  const Job* job_;
  std::string own_;
  std::vector<NetNamespace> list_;
  std::int64_t next_ns_ = 0;
  std::uint64_t generation_ = 0;
  bool looked_ = false;
};

}  // namespace reveal
