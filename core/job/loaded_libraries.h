// The communication and GPU libraries that the job's processes have loaded: settings of a library matter where it runs.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "core/job/job.h"
#include "core/kernel_text/kernel_tree.h"

namespace reveal {

class LoadedLibraries {
 public:
  explicit LoadedLibraries(KernelTree& fs) : fs_(fs) {}

  /// Every ten seconds one process, each of them twice in its life: programs load libraries early.
  void look(std::int64_t now_ns, const Job& job);

  /// The libraries of the list in loaded_libraries.cpp that were seen, by name: "mpi nccl ucx"; "none" if processes
  /// were looked at and had none of them; "" if none could be looked at.
  [[nodiscard]] std::string seen() const;

 private:
  KernelTree& fs_;
  std::set<std::string, std::less<>> seen_;
  std::map<int, int> looks_;  // by process id
  std::int64_t next_ns_ = 0;
  bool looked_ = false;
};

/// The known libraries among the files of a text like /proc/PID/maps, by name, sorted.
[[nodiscard]] std::set<std::string, std::less<>> libraries_in(std::string_view maps);

}  // namespace reveal
