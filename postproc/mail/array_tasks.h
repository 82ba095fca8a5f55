// The results of an array job's tasks, kept beside the count of mails until one mail names the worst of them. One small
// private file for each task; any number of nodes may share the directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "postproc/mail/recipients.h"
#include "postproc/mail/state_folder.h"
#include "postproc/report/report.h"

namespace reveal {

struct ArrayTask {
  std::string array;             // number of the array job
  std::string task;              // "4710_3"
  bool has_result = false;       // false: the task has ended, and its report is still to come
  std::string directory;         // directory of its report
  MailRequest request;           // with the owner's name
  bool admins_notified = false;  // the administrators have their mail about it
  std::string state;             // "COMPLETED"
  VerdictStatus status = VerdictStatus::healthy;
  std::string title;  // main finding
  Severity severity = Severity::notice;
  std::optional<double> lost_seconds, lost_percent;
  bool lost_at_most = false;       // they are an upper bound
  bool lost_perhaps = false;       // another cause was not ruled out
  std::vector<std::string> rules;  // rules of which the mail tells
  std::int64_t utc_ns = 0;         // time of this record
};

[[nodiscard]] std::string render_array_task(const ArrayTask& task);
/// Throws Error.
[[nodiscard]] ArrayTask parse_array_task(const std::string& json);

/// Findings first, by severity, then by the time lost.
void sort_worst_first(std::vector<ArrayTask>& tasks);

/// The tasks of an array in Slurm.
enum class ArrayState : std::uint8_t {
  ended,    // no task waits or runs
  running,  // a task waits or runs
  unknown,  // nobody answers
};
using ArrayStateOf = std::function<ArrayState(const std::string& array)>;

inline constexpr std::size_t kMostTasksKept = 1000;

class ArrayTasks {
 public:
  explicit ArrayTasks(const std::string& directory) : folder_(directory) {}

  /// Replaces the record of the same task. An array has at most kMostTasksKept records, and as many more of tasks with
  /// a finding.
  void keep(const ArrayTask& task);
  void remove(const ArrayTask& task) noexcept;
  /// Keeps a task without a result, unless there is a record of it; drop() removes one without a result.
  void expect(const ArrayTask& task);
  void drop(const ArrayTask& task);

  /// Whether an array has records of any user; reads none.
  [[nodiscard]] bool any(const std::string& array) const { return !names(array).empty(); }
  /// The records of a user's array; with "", of all arrays of all users. Broken files are deleted; those of another
  /// version of reveal stay.
  [[nodiscard]] std::vector<ArrayTask> all(const std::string& array = "", const std::string& user = "");

 private:
  /// Files of the records of an array; with "", of all arrays.
  [[nodiscard]] std::vector<std::string> names(const std::string& array) const;

  StateFolder folder_;
};

}  // namespace reveal
