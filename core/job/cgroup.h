// Where the job's control groups are, version 1 and 2 and both at once, found through /proc/PID/cgroup.
// https://man7.org/linux/man-pages/man7/cgroups.7.html
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/job/job.h"
#include "core/kernel_text/kernel_tree.h"

namespace reveal {

struct Cgroup {
  std::string controllers;  // "" for version 2, else "cpu,cpuacct"
  std::string path;         // "/slurm/uid_1/job_2"
  std::string folder;       // "/sys/fs/cgroup/cpu/slurm/uid_1/job_2"; "" if it is not mounted where we can see it

  [[nodiscard]] bool has(std::string_view controller) const;
};

/// Returns the control groups of one process, in the kernel's order, without their folders: one small read.
[[nodiscard]] std::vector<Cgroup> cgroup_paths_of(KernelTree& fs, int pid);

/// The same with their folders.
[[nodiscard]] std::vector<Cgroup> cgroups_of(KernelTree& fs, int pid);

/// Returns the control groups of the job's first process that is no launcher. Empty while there is none.
[[nodiscard]] std::vector<Cgroup> cgroups_of(KernelTree& fs, const Job& job);

/// "" if every process in the group belongs to the job, otherwise why its numbers are not the job's.
[[nodiscard]] std::string why_not_the_jobs(KernelTree& fs, const Job& job, const Cgroup& cgroup);

/// The file that names the cpus of the job's cpuset; no file if the job has none of its own.
[[nodiscard]] std::string cpuset_path(KernelTree& fs, const Job& job);

}  // namespace reveal
