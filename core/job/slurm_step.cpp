#include "core/job/slurm_step.h"

#include "core/job/process_stat.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

constexpr std::string_view kTitle = "slurmstepd: [";

// Slurm built for several slurmd on one machine names their groups "/slurm_NODE".
std::string node_of_cgroup(std::string_view cgroups) {
  constexpr std::string_view kPrefix = "/slurm_";
  const std::size_t at = cgroups.find(kPrefix);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = cgroups.substr(at + kPrefix.size());
  return std::string(rest.substr(0, rest.find_first_of("/\n")));
}

bool take_title(std::string_view title, StepDaemon& daemon) {
  const std::size_t end = title.find(']');
  if (!title.starts_with(kTitle) || end == std::string_view::npos) return false;
  const std::string_view name = title.substr(kTitle.size(), end - kTitle.size());
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return false;
  daemon.job = name.substr(0, dot);
  daemon.step = name.substr(dot + 1);
  return true;
}

/// The title has no more room than the command line and the environment that slurmd gave: it may be cut in the middle
/// of the number. Slurm's control groups have both names: ".../job_4711/step_batch/slurm".
bool take_cgroup(std::string_view cgroups, StepDaemon& daemon) {
  constexpr std::string_view kJob = "/job_";
  constexpr std::string_view kStep = "/step_";
  const std::size_t at = cgroups.find(kJob);
  if (at == std::string_view::npos) return false;
  const std::string_view job = cgroups.substr(at + kJob.size());
  const std::size_t end = job.find_first_not_of("0123456789");
  if (end == 0 || end == std::string_view::npos || !job.substr(end).starts_with(kStep)) return false;
  const std::string_view step = job.substr(end + kStep.size());
  daemon.job = job.substr(0, end);
  daemon.step = step.substr(0, step.find_first_of("/\n"));
  return !daemon.step.empty();
}

}  // namespace

StepDaemon read_step_daemon(KernelTree& fs, int pid) {
  StepDaemon daemon;
  const std::string folder = "/proc/" + std::to_string(pid);
  // Any process can take this name, so the owner must be root. Reading the command line of another user's process may
  // take any time: the kernel waits for its memory.
  // https://man7.org/linux/man-pages/man5/proc_pid_cmdline.5.html
  const std::string status = fs.text(folder + "/status").value_or("");
  std::string_view owner = field_of(status, "Uid");
  if (next_word(owner) != "0") return daemon;
  // Its threads have its name, and so have the processes it starts until they begin a program of their own.
  if (field_of(status, "Tgid") != std::to_string(pid)) return daemon;
  const auto parent = fs.text("/proc/" + std::string(field_of(status, "PPid")) + "/comm");
  if (parent && parent->starts_with(kStepDaemon)) return daemon;
  const auto line = fs.text(folder + "/cmdline");
  if (!line) return daemon;
  daemon.state = StepDaemon::State::nameless;
  const std::string cgroups = fs.text(folder + "/cgroup").value_or("");
  if (!take_title(*line, daemon) && !take_cgroup(cgroups, daemon)) return daemon;
  daemon.state = StepDaemon::State::named;
  daemon.node = node_of_cgroup(cgroups);
  return daemon;
}

}  // namespace reveal
