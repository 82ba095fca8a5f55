#include "core/intervention/job_threads.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "core/job/process_stat.h"
#include "core/kernel_text/kernel_words.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

std::string task_folder(int pid) {
  return "/proc/" + std::to_string(pid) + "/task";
}

/// Field 41 of its stat; the first one after the command is field 3. Unknown policies count as such.
/// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
bool is_realtime(std::string_view stat) {
  std::string_view rest = stat.substr(stat.rfind(')') + 1);
  skip_words(rest, 38);
  const std::string_view policy = next_word(rest);
  return policy != "0" && policy != "3";  // SCHED_OTHER, SCHED_BATCH
}

/// Not recorded: a replay changes nothing, and would get these texts in place of those that its probes read.
std::optional<JobThread> read_thread(KernelTree& fs, int pid, int tid) {
  const std::string text = fs.unrecorded_text(task_folder(pid) + '/' + std::to_string(tid) + "/stat");
  const auto stat = parse_process_stat(text);
  if (!stat || stat->state == 'Z' || stat->state == 'X') return std::nullopt;
  return JobThread{pid, tid, stat->start_ticks, stat->user_ticks + stat->system_ticks, is_realtime(text)};
}

}  // namespace

bool works(const Job& job, const JobProcess& process) {
  return !process.launcher && process.program == ProgramOf::job && process.stat.state != 'Z' && !job.is_keeper(process);
}

std::vector<JobThread> threads_of(KernelTree& fs, int pid) {
  std::vector<JobThread> threads;
  for (const std::string& name : fs.list(task_folder(pid))) {
    const auto tid = parse_int(name);
    const auto thread = tid ? read_thread(fs, pid, static_cast<int>(*tid)) : std::nullopt;
    if (thread) threads.push_back(*thread);
  }
  return threads;
}

bool is_there(KernelTree& fs, const JobThread& thread) {
  const auto now = read_thread(fs, thread.pid, thread.tid);
  return now && now->start_ticks == thread.start_ticks;
}

std::optional<std::vector<ThreadGroup>> thread_groups(const InterventionContext& context) {
  std::int64_t expected = 0;
  for (const auto& process : context.job.processes()) {
    if (works(context.job, *process)) expected += process->stat.threads;
  }
  if (expected > kMostThreads) return std::nullopt;
  std::vector<ThreadGroup> groups;
  for (const auto& process : context.job.processes()) {
    if (!works(context.job, *process)) continue;
    for (const JobThread& thread : threads_of(context.fs, process->pid)) {
      const auto cpus = context.masks.read(thread.tid);
      if (!cpus) continue;
      auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& other) { return other.cpus == *cpus; });
      if (group == groups.end()) {
        groups.push_back({*cpus, {}});
        group = std::prev(groups.end());
      }
      group->threads.push_back(thread);
    }
  }
  return groups;
}

}  // namespace reveal
