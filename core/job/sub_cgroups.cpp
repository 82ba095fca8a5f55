#include "core/job/sub_cgroups.h"

#include <algorithm>

#include "core/job/cgroup.h"

namespace reveal {
namespace {

constexpr std::int64_t kCgroupsPeriod = 10'000'000'000;
constexpr std::size_t kProcessesPerLook = 64;  // looked at in one go
constexpr std::size_t kMostGroups = 32;

}  // namespace

void SubCgroups::look(std::int64_t now_ns, const Job& job) {
  if (now_ns < next_ns_ || job.processes().empty()) return;
  next_ns_ = now_ns + kCgroupsPeriod;
  const std::vector<Cgroup> own = cgroups_of(fs_, job);
  const auto& processes = job.processes();
  for (std::size_t i = 0; i < std::min(processes.size(), kProcessesPerLook) && seen_.size() < kMostGroups; ++i) {
    const JobProcess& process = *processes[turn_++ % processes.size()];
    if (process.launcher) continue;
    for (const Cgroup& group : cgroup_paths_of(fs_, process.pid)) {
      const auto same = std::find_if(own.begin(), own.end(), [&](const Cgroup& job_group) {
        return job_group.controllers == group.controllers && group.path.starts_with(job_group.path + "/");
      });
      if (same != own.end() && same->path != "/") seen_.insert(group.path.substr(same->path.size() + 1));
    }
  }
}

std::string SubCgroups::seen() const {
  std::string text;
  for (const std::string& group : seen_) text += (text.empty() ? "" : " ") + group;
  return text;
}

}  // namespace reveal
