// A job of Slurm as a user names it and as squeue lists it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace reveal {

/// "4711", "4711_3" (task of an array), "4711+1" (component of a heterogeneous job) or "4711.0" (step).
[[nodiscard]] bool is_job_number(std::string_view text);
/// Throws Error for the number of a step: only whole jobs are watched.
void need_whole_job(const std::string& number);

struct QueuedJob {
  std::string id;      // the job's own number, also of a task or a component
  std::string number;  // as Slurm writes it: "4711_3"
  std::string state;   // "RUNNING"
  std::size_t nodes = 0;
  std::string reason;  // why it waits

  [[nodiscard]] bool runs() const { return state == "RUNNING" || state == "SUSPENDED"; }
  [[nodiscard]] bool waits() const { return state == "PENDING" || state == "CONFIGURING" || state == "REQUEUED"; }
};

/// Options of squeue for the lines that the next function reads.
[[nodiscard]] std::vector<std::string> squeue_options(const std::string& number);
/// Lines of any length and number; malformed ones are left out.
[[nodiscard]] std::vector<QueuedJob> parse_queue(std::string_view text);

/// The one job of this number that runs. Throws Error if it waits, has ended, or if several run.
[[nodiscard]] QueuedJob running_job(const std::string& number, std::vector<QueuedJob> listed);

/// The errors that programs of Slurm print, on one line; "" if there are only other messages.
[[nodiscard]] std::string errors_of_slurm(std::string_view printed);
/// The words of such a program about its failure: its errors, else all it printed.
[[nodiscard]] std::string words_of_slurm(std::string_view printed);

}  // namespace reveal
