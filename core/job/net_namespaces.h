// The network namespaces the job's processes live in: /proc/net shows only the reader's own.
// https://man7.org/linux/man-pages/man7/network_namespaces.7.html
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/job/job.h"
#include "core/kernel_text/kernel_tree.h"
#include "core/sampler/lasting_instances.h"

namespace reveal {

struct NetNamespace {
  std::string name;    // "" for the job's first, then "ns2", "ns3"
  std::string folder;  // "/proc/net" or "/proc/4711/net"; "" while no process of the job is in it
  std::string inode;   // "net:[4026531840]"
};

class NetNamespaces {
 public:
  static constexpr LastingInstances::Limits kLimits{.at_first = 4, .later = 4};
  static constexpr std::size_t kMost = kLimits.at_first + kLimits.later;

  NetNamespaces(KernelTree& fs, const Job* job);
  void update(std::int64_t now_ns);

  /// "" for the first, then "ns2", "ns3".
  [[nodiscard]] static std::string name_of(std::size_t place);

  /// Only grows; the folder of one may change. A file opened below it keeps its namespace when the process ends, so it
  /// is to be closed when the folder becomes "": its counters then are not the job's.
  [[nodiscard]] const std::vector<NetNamespace>& list() const noexcept { return list_; }
  /// The job was in more of them than have a place.
  [[nodiscard]] bool overflowed() const noexcept { return overflowed_; }

 private:
  void begin_round(std::int64_t now_ns);
  void end_round();
  bool consider(int pid);
  [[nodiscard]] std::optional<std::size_t> place_of(const std::string& inode);

  KernelTree& fs_;
  const Job* job_;
  std::string own_;
  std::vector<NetNamespace> list_;  // by place
  LastingInstances lasting_{kLimits};
  std::size_t position_ = 0;  // the next process to be looked at; 0: a round is complete
  bool all_seen_ = true;
  std::bitset<kMost> inhabited_;
  std::bitset<kMost> folder_lives_;  // the process of its folder is there
  std::array<std::string, kMost> other_folders_;
  bool newcomers_ = false;  // that may be admitted later
  bool overflowed_ = false;
  std::int64_t next_ns_ = 0;
  std::uint64_t generation_ = 0;
  bool looked_ = false;
};

}  // namespace reveal
