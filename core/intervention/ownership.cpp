#include "core/intervention/ownership.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "core/job/cgroup.h"
#include "core/job/job_cpus.h"
#include "hdf5schema/basics/file_pattern.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

/// Each is in the environment of jobs of one batch system.
constexpr const char* kBatchVariables[] = {"SLURM_JOB_ID", "PBS_JOBID",    "LSB_JOBID",   "SGE_TASK_ID",
                                           "OAR_JOB_ID",   "COBALT_JOBID", "FLUX_JOB_ID", "_CONDOR_SLOT"};

constexpr std::string_view kRefusal = "REVEAL_INTERVENE";

/// In version 2, a group without cpus of its own has those of the group above it: all of the node where nothing
/// confines the job. In version 1 it has a copy of that list.
/// https://docs.kernel.org/admin-guide/cgroup-v2.html#cpuset
bool confines(KernelTree& fs, const std::string& cpuset, const CpuSet& online) {
  constexpr std::string_view kGroups = "/sys/fs/cgroup";
  const std::string folder = cpuset.substr(0, cpuset.rfind('/'));
  if (!folder.starts_with(kGroups) || fs.word(folder + "/cpuset.cpus").empty()) return false;
  const bool version2 = cpuset.ends_with("/cpuset.cpus.effective");
  return version2 || !CpuSet::of_list(fs.word(cpuset)).contains(online);
}

/// A group that the batch system named after the job has no other processes.
bool is_shared(const InterventionContext& context, const std::string& cpuset) {
  if (!context.batch_system || !context.job.cgroup_name().empty()) return false;
  const std::string folder = cpuset.substr(0, cpuset.rfind('/'));
  const std::vector<Cgroup> groups = cgroups_of(context.fs, context.job);
  return std::any_of(groups.begin(), groups.end(), [&](const Cgroup& group) {
    return group.folder == folder && !why_not_the_jobs(context.fs, context.job, group).empty();
  });
}

bool is_inside(std::string_view path, std::string_view group) {
  if (group == "/" || path == group) return true;
  return path.starts_with(group) && path.substr(group.size()).starts_with('/');
}

bool is_in_group_of_job(const InterventionContext& context, int pid) {
  const std::vector<Cgroup> own = cgroup_paths_of(context.fs, pid);
  const std::vector<Cgroup> jobs = cgroups_of(context.fs, context.job);
  return std::all_of(jobs.begin(), jobs.end(), [&own](const Cgroup& group) {
    if (!group.controllers.empty() && !group.has("cpuset")) return true;
    return std::any_of(own.begin(), own.end(), [&group](const Cgroup& one) {
      return one.controllers == group.controllers && is_inside(one.path, group.path);
    });
  });
}

}  // namespace

OwnedCpus owned_cpus(const InterventionContext& context) {
  OwnedCpus owned;
  CpuSet online;
  for (const int cpu : context.host.cpus_online) online.insert(cpu);
  const std::string cpuset = cpuset_path(context.fs, context.job);
  if (confines(context.fs, cpuset, online) && !is_shared(context, cpuset)) {
    owned.cpus = CpuSet::of_list(context.fs.word(cpuset));
  } else if (context.batch_system) {
    owned.unknown = "no cpuset of its own confines the job, so that the cpus that it owns are not known";
  } else {
    owned.cpus = cpus_of_job(context.fs, context.job, CpusOf::launchers);
    if (owned.cpus.size() == 0) owned.unknown = "the job has no launcher of reveal, so that its cpus are not known";
  }
  owned.cpus.keep(online);
  return owned;
}

std::optional<Variables> environment_of(KernelTree& fs, int pid) {
  const std::string text = fs.unrecorded_text("/proc/" + std::to_string(pid) + "/environ");
  if (text.empty()) return std::nullopt;
  Variables variables;
  for (const std::string& entry : split_names(text, std::string_view("\0", 1))) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos) variables[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return variables;
}

std::string why_left_alone(const InterventionContext& context, int pid) {
  const std::string process = "process " + std::to_string(pid);
  const std::string status = context.fs.text("/proc/" + std::to_string(pid) + "/status").value_or("");
  if (parse_int(field_of(status, "Uid")) != static_cast<std::int64_t>(context.user)) {
    return process + " belongs to another user";
  }
  if (!is_in_group_of_job(context, pid)) return process + " is in another control group than the job";
  const auto environment = environment_of(context.fs, pid);
  if (!environment) return "the environment of " + process + " cannot be read";
  const auto refusal = environment->find(kRefusal);
  const bool refused = refusal != environment->end() && refuses(refusal->second);
  return refused ? "its user refused (" + std::string(kRefusal) + ")" : "";
}

// An abstract name goes with its last descriptor, also where the collector is killed, and needs no file. Another user
// who takes it prevents changes, and nothing else.
// https://man7.org/linux/man-pages/man7/unix.7.html
Descriptor claim_job(uid_t user, const std::string& job) {
  Descriptor claim(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "reveal-intervention-" + std::to_string(user) + '-' + job;
  if (!claim || name.size() >= sizeof address.sun_path) return {};
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return ::bind(claim.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0 ? std::move(claim) : Descriptor();
}

bool in_batch_system() {
  return std::any_of(std::begin(kBatchVariables), std::end(kBatchVariables),
                     [](const char* name) { return !process_environment(name).empty(); });
}

}  // namespace reveal
