#include "postproc/mail/array_tasks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/private_files.h"
#include "hdf5schema/basics/text.h"
#include "postproc/diagnose/analysis_settings.h"
#include "postproc/json/record.h"
#include "postproc/mail/mail_quota.h"

namespace reveal {
namespace {

constexpr const char* kTaskSchema = "reveal.array-task/1";
constexpr std::string_view kTaskFile = "task-";
constexpr std::size_t kLargestTask = 64 << 10;

std::string file_of(const ArrayTask& task) {
  return std::string(kTaskFile) + task.array + "-" + text_hash(task.request.user + "\n" + task.task);
}

/// "4710_12" -> 12, so that task 9 comes before task 10.
std::int64_t index_of(const ArrayTask& task) {
  return parse_int(std::string_view(task.task).substr(task.task.find('_') + 1)).value_or(0);
}

int rank_of(VerdictStatus status) noexcept {
  switch (status) {
    case VerdictStatus::finding:
      return 3;
    case VerdictStatus::notice:
      return 2;
    case VerdictStatus::insufficient_data:
      return 1;
    case VerdictStatus::healthy:
      break;
  }
  return 0;
}

}  // namespace

void fields(auto& v, Visited<decltype(v), ArrayTask>& task) {
  v.schema("schema", kTaskSchema);
  v("array", task.array);
  v("task", task.task);
  v("has_result", task.has_result);
  v("directory", task.directory);
  v("asked", task.request.asked);
  v("mail_user", task.request.mail_user);
  v("user", task.request.user);
  v("admins_notified", task.admins_notified);
  v("state", task.state);
  v.name("status", task.status, verdict_status_of);
  v("title", task.title);
  v.name("severity", task.severity, severity_of);
  v("lost_seconds", task.lost_seconds);
  v("lost_percent", task.lost_percent);
  v("lost_at_most", task.lost_at_most);
  v("lost_perhaps", task.lost_perhaps);
  v("rules", task.rules);
  v.time("time", task.utc_ns);
}

std::string render_array_task(const ArrayTask& task) {
  return render_record(task);
}

ArrayTask parse_array_task(const std::string& json) {
  ArrayTask task = parse_record<ArrayTask>(json, "task of an array");
  if (!is_array_id(task.array)) throw Error("a task of an array: \"array\" is no number");
  return task;
}

void sort_worst_first(std::vector<ArrayTask>& tasks) {
  const auto rank = [](const ArrayTask& task) {
    return std::tuple(-rank_of(task.status), -static_cast<int>(task.severity), -task.lost_seconds.value_or(0),
                      -task.lost_percent.value_or(0), index_of(task));
  };
  std::stable_sort(tasks.begin(), tasks.end(),
                   [&rank](const ArrayTask& one, const ArrayTask& other) { return rank(one) < rank(other); });
}

std::vector<std::string> ArrayTasks::names(const std::string& array) const {
  return folder_.names(std::string(kTaskFile) + (array.empty() ? "" : array + "-"));
}

void ArrayTasks::keep(const ArrayTask& task) {
  if (!is_array_id(task.array)) return;
  const std::string name = file_of(task);
  const std::vector<std::string> known = names(task.array);
  const std::size_t most = task.status == VerdictStatus::finding ? 2 * kMostTasksKept : kMostTasksKept;
  if (known.size() >= most && !std::binary_search(known.begin(), known.end(), name)) return;
  publish_file(folder_.path(), name, render_array_task(task));
}

void ArrayTasks::remove(const ArrayTask& task) noexcept {
  folder_.remove(file_of(task));
}

void ArrayTasks::expect(const ArrayTask& task) {
  if (::faccessat(folder_.descriptor(), file_of(task).c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0) keep(task);
}

void ArrayTasks::drop(const ArrayTask& task) {
  for (const ArrayTask& kept : all(task.array, task.request.user)) {
    if (kept.task == task.task && !kept.has_result) remove(kept);
  }
}

std::vector<ArrayTask> ArrayTasks::all(const std::string& array, const std::string& user) {
  std::vector<ArrayTask> tasks;
  for (const std::string& name : names(array)) {
    std::string text;
    try {
      text = read_text_file(folder_.path_of(name), kLargestTask, FileOf::ours);
      ArrayTask task = parse_array_task(text);
      if (file_of(task) != name) throw Error(name);
      if (array.empty() || task.request.user == user) tasks.push_back(std::move(task));
    } catch (const Error&) {
      if (!text.empty() && !is_of_another_version(text, kTaskSchema)) folder_.remove(name);
    }
  }
  return tasks;
}

}  // namespace reveal
