// Whether the tasks of an array job have ended, which decides when its mail is sent.
#pragma once

#include <chrono>
#include <string>

#include "postproc/mail/array_tasks.h"

namespace reveal {

/// Asks Slurm's controller. Where only epilogs of other tasks are left, waits until they have ended, and at most
/// `patience`: afterwards the records of these tasks are in place. `own_job`: the job that asks, "" if it is none of
/// the array's.
[[nodiscard]] ArrayState array_state_in_slurm(const std::string& array, const std::string& own_job,
                                              std::chrono::milliseconds patience);

/// The record that the report of a task is still to come, so that no other task takes itself for the last one. Where
/// the directory `state` cannot be written, there is none.
class ExpectedTask {
 public:
  void expect(const std::string& state, ArrayTask task) noexcept;
  /// No report comes, or no mail about it.
  void drop() noexcept;

 private:
  std::string state_;
  ArrayTask task_;
};

}  // namespace reveal
