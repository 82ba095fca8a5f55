// Control groups of reveal for its processes that run as the job's user: reveal/JOB.NODE.PID in each hierarchy, limited
// in memory, processes and cpu share. The user reaches no way out of them, and their processes are killed when the
// broker is done. Where control groups cannot be made, the limits of the processes themselves remain.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace reveal {

/// Kills the process if it still `is_member`: its number may be that of another user's process by now. False if it was
/// not killed.
bool kill_member(pid_t pid, const std::function<bool(pid_t)>& is_member);

class UserCgroup {
 public:
  /// `run`: "4711.n03". `root` holds the hierarchies of version 1, or is the one of version 2.
  explicit UserCgroup(std::string run, const std::filesystem::path& root = "/sys/fs/cgroup");
  ~UserCgroup();
  UserCgroup(const UserCgroup&) = delete;
  UserCgroup& operator=(const UserCgroup&) = delete;

  /// This process leaves the groups it was started in for the roots: a step's group could not be removed while it is
  /// there, and its memory would be charged to the job. A group that cannot be left stays as it is.
  void leave_foreign_groups() const noexcept;
  /// This process, and whatever it starts, is in these groups from now on.
  void join() const noexcept;

  /// How much of contended cpus its processes get, in comparison with one process of usual priority.
  enum class CpuShare { usual, low, least };
  void set_cpu_share(CpuShare share) const noexcept;
  /// No devices but null, zero and the like; version 1 only.
  void deny_devices() const noexcept;

  /// Kills every process in them, however it left its parent, its process group and its session, and those of a broker
  /// of this run that was killed.
  void kill_all() const noexcept;

 private:
  [[nodiscard]] std::vector<std::filesystem::path> abandoned(bool of_this_run) const noexcept;

  std::string run_;
  std::vector<std::filesystem::path> roots_;    // one for each hierarchy
  std::vector<std::filesystem::path> parents_;  // ROOT/reveal
  std::vector<std::filesystem::path> groups_;   // ROOT/reveal/JOB.NODE.PID
};

}  // namespace reveal
