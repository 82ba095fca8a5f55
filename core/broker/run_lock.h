// SPOOL/run/JOB.NODE as the broker uses it; the plug-in (spank/run_lock.c) takes the lock before and reads the first
// line. While the lock is held, the file holds the broker's identity and the input of an orphan's deliverer:
//   PID START RESTART      START: field 22 of /proc/PID/stat
//   what the user wrote behind --reveal=
//   SLURM_STEP_NODELIST
// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
#pragma once

#include <string>

#include "core/broker/broker.h"

namespace reveal {

class RunLock {
 public:
  /// Throws Error when the file cannot be written.
  explicit RunLock(const BrokerOptions& options);

  /// Restart, request and nodes of the run that is recorded or was left. The environment of an epilog may already
  /// describe the next run.
  [[nodiscard]] int restart() const noexcept { return restart_; }
  [[nodiscard]] const std::string& request() const noexcept { return request_; }
  [[nodiscard]] const std::string& step_nodes() const noexcept { return step_nodes_; }

  /// Marks the node as finished for the epilog. `failed`: the job's further steps shall not try again. An orphan's file
  /// stays: its broker did crash.
  void release(bool failed) noexcept;
  void close_in_child() const noexcept;

  /// Leaves a file which records that the collector ended with a message: the circuit breaker counts crashes only.
  static void leave_failed(const BrokerOptions& options) noexcept;

 private:
  void read_left();

  const BrokerOptions& options_;
  int fd_;
  int restart_;
  std::string request_, step_nodes_;
};

}  // namespace reveal
