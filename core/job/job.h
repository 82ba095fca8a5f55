// The job on this node: its processes and the CPU time they and their reaped children ever used. Built from process ids
// alone, so it needs no privilege and works with and without a batch system.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/job/own_programs.h"
#include "core/job/process_stat.h"
#include "core/kernel_text/kernel_tree.h"
#include "core/sampler/host.h"

namespace reveal {

/// `--job pid:N`: the tree under N, N included. `--job run:DIR`: the trees under the launchers with the process ids in
/// the names of the files DIR/rank.PID (their text, if a number, is the rank); the launchers' own work is not the
/// job's. `--job slurm:ID[@NODE]`: the trees under the step daemons of Slurm's job ID (of that node, where several
/// share a kernel), which come and go.
struct JobSource {
  int pid = 0;
  std::filesystem::path directory;
  std::string slurm_job;
  std::string slurm_node;

  /// Throws Error with one line about the mistake.
  static JobSource parse(const std::string& argument);
};

struct JobProcess {
  int pid = 0;
  int rank = -1;          // rank from the launcher it descends from; -1: none
  bool launcher = false;  // its own work does not count
  ProgramOf program = ProgramOf::job;
  bool root = false;
  bool from_birth = false;  // it is not older than the collector: its counters cover only that time
  std::int64_t found_ns = 0;
  std::string command;
  std::int64_t start_ticks = 0;
  ProcessStat stat;         // the last one read; `command` in it is not valid
  std::int64_t weight = 0;  // ticks used lately, decaying
  std::int64_t weighed = 0;
  std::uint64_t read_at = 0;    // the update in which `stat` was read
  std::uint64_t reaped_at = 0;  // the update in which its reaped time was last seen to grow
  KernelFile file;
};

struct StepChange {
  std::string step;  // "0", "batch"
  bool begun = false;
};

class Job {
 public:
  /// `own_pid` is never part of the job.
  Job(KernelTree& fs, const Host& host, std::optional<JobSource> source, int own_pid);

  enum class Count : bool { no, yes };
  /// Once per tick, before the probes. Counting begins with the first update with Count::yes.
  void update(TickTime now, Count count = Count::yes);

  /// All roots were seen and are gone, or none came within `kPatience`. Between two steps of a Slurm job there may be
  /// no process for long.
  [[nodiscard]] bool ended() const noexcept { return ended_; }
  /// Parents before their children, in the order they were found.
  [[nodiscard]] const std::vector<std::unique_ptr<JobProcess>>& processes() const noexcept { return processes_; }
  [[nodiscard]] const JobProcess* find(int pid) const noexcept;
  /// The time never falls; kMissing while it is unknown.
  [[nodiscard]] std::int64_t cpu_time_ns() const noexcept { return cpu_time_ns_; }
  [[nodiscard]] int own_pid() const noexcept { return own_pid_; }
  /// "/job_4711" where that is the last part of the job's own control groups; "" if they have no such name.
  [[nodiscard]] std::string cgroup_name() const;
  /// Slurm's own process that keeps the extern step alive; no process of the job started it.
  [[nodiscard]] bool is_keeper(const JobProcess& process) const noexcept;
  /// It was named by its number in Slurm; a job of Slurm's that was named otherwise shows it in its environment.
  [[nodiscard]] bool of_slurm() const noexcept { return source_ && !source_->slurm_job.empty(); }
  /// A step of another Slurm job was seen on this node.
  [[nodiscard]] bool saw_other_job() const noexcept { return saw_other_job_; }
  /// Steps of a Slurm job that came or went since the last call.
  [[nodiscard]] std::vector<StepChange> take_step_changes() { return std::exchange(step_changes_, {}); }
  /// Changes whenever processes come or go.
  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }

 private:
  void refresh_roots(std::int64_t now_ns);
  [[nodiscard]] bool roots_may_have_changed();
  [[nodiscard]] std::string roots_text() const;
  void discover(std::int64_t now_ns);
  void scan_all();
  enum class Look : std::uint8_t { absent, strange, taken };
  Look consider(int pid, bool may_be_thread);
  void expect_late(int pid);
  void consider_late();
  void consider_step_daemon(int pid);
  void name_step_daemons();
  void forget_step_daemon(int pid);
  [[nodiscard]] bool root_alive() const noexcept;
  [[nodiscard]] bool is_over(std::int64_t now_ns);
  JobProcess* add(int pid, const ProcessStat& stat, int rank, KernelFile file);
  void rename(JobProcess& process, std::string_view command);
  bool read_processes(bool again);
  [[nodiscard]] bool may_rest(const JobProcess& process, std::size_t place) const noexcept;
  struct GoneProcess {
    int pid = 0;
    int parent = 0;
    std::int64_t uncounted_ticks = 0;  // used, but not the job's
  };
  [[nodiscard]] JobProcess* heir_of(const GoneProcess& process, std::span<const GoneProcess> gone) const;
  void leave_out_uncounted(std::span<const GoneProcess> gone);
  [[nodiscard]] bool heirs_reaped(std::span<const GoneProcess> gone);
  void account();

  KernelTree& fs_;
  OwnPrograms own_programs_;
  std::int64_t tick_ns_;
  std::optional<JobSource> source_;
  int own_pid_;
  KernelFile load_average_;
  std::vector<std::unique_ptr<JobProcess>> processes_;
  std::unordered_map<int, JobProcess*> by_pid_;
  std::vector<std::pair<int, std::int64_t>> dead_roots_;
  std::vector<std::pair<int, std::string>> step_daemons_;  // process id, step
  std::vector<StepChange> step_changes_;
  std::vector<std::pair<int, int>> nameless_step_daemons_;  // process id, looks so far
  std::string roots_seen_;
  std::uint64_t generation_ = 0;
  std::uint64_t ticks_ = 0;
  std::int64_t began_ns_ = -1;
  std::int64_t now_ns_ = 0;
  std::int64_t own_start_ticks_ = kMissing;
  std::int64_t rootless_since_ns_ = -1;
  std::int64_t next_roots_ns_ = 0;
  std::int64_t next_scan_ns_ = 0;
  std::int64_t roots_modified_ns_ = -1;
  bool look_again_ = false;
  bool saw_other_job_ = false;
  std::int64_t last_pid_ = -1;
  std::vector<std::pair<int, int>> late_pids_;  // given out, but no process has them yet; ticks since
  // Ticks of ended processes whose time is in no other process, less those in others that are not the job's.
  std::int64_t base_ticks_ = 0;
  std::int64_t last_ticks_ = 0;
  std::int64_t cpu_time_ns_ = kMissing;
  int short_for_ = 0;
  bool had_root_ = false;
  bool counted_ = false;
  bool ended_ = false;
};

}  // namespace reveal
