#include "core/pmu/job_tasks.h"

#include <algorithm>
#include <cerrno>
#include <unordered_set>

#include "hdf5schema/basics/text.h"

namespace reveal {

JobTasks::JobTasks(KernelTree& fs, const Job& job, std::function<int(const PerfTarget&)> attach)
    : fs_(fs), job_(job), attach_(std::move(attach)) {}

std::vector<std::size_t> JobTasks::update() {
  if (!first_ && job_.generation() == generation_) return {};
  generation_ = job_.generation();
  for (auto& [pid, process] : processes_) process.alive = false;
  // Parents come before their children. At the first look all are attached to: none was begun under a counter.
  for (const auto& process : job_.processes()) {
    const auto known = processes_.find(process->pid);
    if (known != processes_.end() && known->second.start_ticks == process->start_ticks) {
      known->second.alive = true;
      continue;
    }
    const auto parent = processes_.find(process->stat.parent);
    if (!first_ && parent != processes_.end() && parent->second.attachment >= 0) {
      processes_[process->pid] = {process->start_ticks, parent->second.attachment, true};
    } else {
      attach(*process);
    }
  }
  first_ = false;
  std::vector<std::size_t> gone;
  std::unordered_set<int> used;
  for (const auto& [pid, process] : processes_) {
    if (process.alive) used.insert(process.attachment);
  }
  for (std::size_t i = attachments_.size(); i > 0; --i) {
    if (!used.contains(attachments_[i - 1])) gone.push_back(i - 1);
  }
  forget_the_dead();
  return gone;
}

void JobTasks::attach(const JobProcess& process) {
  Process& entry = processes_[process.pid];
  entry = {process.start_ticks, -1, true};
  // A launcher's own work is not the job's, but its children's is: it does next to nothing itself.
  const int attachment = next_attachment_;
  for (const std::string& name : fs_.list("/proc/" + std::to_string(process.pid) + "/task")) {
    const auto thread = parse_int(name);
    if (!thread) continue;
    const int error = attachments_.size() < kMostAttached
                          ? attach_({.task = static_cast<pid_t>(*thread), .with_children = true})
                          : EMFILE;
    if (error == 0) {
      attachments_.push_back(attachment);
      entry.attachment = attachment;
    } else if (error != ESRCH) {
      if (error_ == 0) error_ = error;
      if (!process.launcher) ++missed_;
    }
  }
  if (entry.attachment >= 0) ++next_attachment_;
}

void JobTasks::forget_the_dead() {
  std::erase_if(processes_, [](const auto& entry) { return !entry.second.alive; });
}

void JobTasks::taken_out(std::size_t place) {
  attachments_.erase(attachments_.begin() + static_cast<std::ptrdiff_t>(place));
}

}  // namespace reveal
