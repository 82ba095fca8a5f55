#include "core/job/cgroup.h"

#include <algorithm>

#include "core/kernel_text/kernel_words.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

struct Mount {
  bool version2 = false;
  std::string root;
  std::string point;
  std::string options;  // options of the file system: the controllers of version 1
};

bool is_listed(std::string_view list, std::string_view word) {
  const auto words = split_names(list, ",");
  return std::find(words.begin(), words.end(), word) != words.end();
}

// "31 23 0:28 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu"
// https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html
std::vector<Mount> cgroup_mounts(KernelTree& fs) {
  std::vector<Mount> mounts;
  const std::string table = fs.text("/proc/self/mountinfo").value_or("");
  std::string_view rest = table;
  std::string_view line;
  while (next_line(rest, line)) {
    const std::size_t dash = line.find(" - cgroup");
    if (dash == std::string_view::npos) continue;
    std::string_view tail = line.substr(dash + 3);
    Mount mount;
    mount.version2 = next_word(tail) == "cgroup2";
    skip_words(tail, 1);
    mount.options = next_word(tail);
    skip_words(line, 3);
    mount.root = next_word(line);
    mount.point = next_word(line);
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

std::string folder_of(const Mount& mount, std::string_view path) {
  // In a container the mount shows only a part of the tree, and the path may or may not begin at that part.
  if (mount.root != "/" && path.substr(0, mount.root.size()) == mount.root) path.remove_prefix(mount.root.size());
  if (path == "/") path = {};
  return mount.point + std::string(path);
}

// The collector's own worker processes (core/sampler/worker_process.h).
bool is_our_child(KernelTree& fs, const Job& job, std::int64_t pid) {
  if (job.own_pid() <= 0) return false;
  const std::string text = fs.text("/proc/" + std::to_string(pid) + "/stat").value_or("");
  const auto stat = parse_process_stat(text);
  return stat && stat->parent == job.own_pid();
}

void cut_below(std::string& path, const std::string& name) {
  const std::size_t at = path.find(name + '/');
  if (at != std::string::npos) path.resize(at + name.size());
}

}  // namespace

bool Cgroup::has(std::string_view controller) const {
  return is_listed(controllers, controller);
}

std::vector<Cgroup> cgroup_paths_of(KernelTree& fs, int pid) {
  std::vector<Cgroup> groups;
  const std::string text = fs.text("/proc/" + std::to_string(pid) + "/cgroup").value_or("");
  std::string_view rest = text;
  std::string_view line;
  while (next_line(rest, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', std::min(first, line.size() - 1) + 1);
    if (second == std::string_view::npos || line.substr(second + 1, 1) != "/") continue;
    Cgroup group;
    group.controllers = line.substr(first + 1, second - first - 1);
    group.path = line.substr(second + 1);
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<Cgroup> cgroups_of(KernelTree& fs, int pid) {
  std::vector<Cgroup> groups = cgroup_paths_of(fs, pid);
  const std::vector<Mount> mounts = cgroup_mounts(fs);
  for (Cgroup& group : groups) {
    for (const Mount& mount : mounts) {
      const bool fits = group.controllers.empty()
                            ? mount.version2
                            : !mount.version2 &&
                                  is_listed(mount.options,
                                            std::string_view(group.controllers).substr(0, group.controllers.find(',')));
      if (!fits) continue;
      group.folder = folder_of(mount, group.path);
      break;
    }
  }
  return groups;
}

std::vector<Cgroup> cgroups_of(KernelTree& fs, const Job& job) {
  const auto& processes = job.processes();
  if (processes.empty()) return {};
  const auto first =
      std::find_if(processes.begin(), processes.end(), [](const auto& process) { return !process->launcher; });
  std::vector<Cgroup> groups = cgroups_of(fs, first != processes.end() ? (*first)->pid : processes.front()->pid);
  // Its step and its task have groups of their own below the job's.
  if (const std::string name = job.cgroup_name(); !name.empty()) {
    for (Cgroup& group : groups) {
      cut_below(group.path, name);
      cut_below(group.folder, name);
    }
  }
  return groups;
}

std::string why_not_the_jobs(KernelTree& fs, const Job& job, const Cgroup& cgroup) {
  if (cgroup.folder.empty()) return "its cgroup is not mounted here";
  if (cgroup.path == "/") return "the job has no cgroup of its own: it runs in the root cgroup";
  const auto members = fs.text(cgroup.folder + "/cgroup.procs");
  if (!members) return "the members of its cgroup cannot be read";
  std::string_view rest = *members;
  std::string_view line;
  while (next_line(rest, line)) {
    const auto pid = parse_int(line);
    if (!pid || *pid == job.own_pid() || job.find(static_cast<int>(*pid)) != nullptr) continue;
    if (is_our_child(fs, job, *pid)) continue;
    return "the job shares its cgroup " + cgroup.path + " with processes that are not the job's";
  }
  return "";
}

std::string cpuset_path(KernelTree& fs, const Job& job) {
  for (const Cgroup& group : cgroups_of(fs, job)) {
    if (group.folder.empty() || group.path == "/") continue;
    for (const std::string_view name : {"/cpuset.cpus.effective", "/cpuset.effective_cpus"}) {
      std::string path = group.folder + std::string(name);
      if ((group.controllers.empty() || group.has("cpuset")) && !fs.word(path).empty()) return path;
    }
  }
  return "/sys/devices/system/cpu/online";
}

}  // namespace reveal
