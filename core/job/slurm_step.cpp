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
  const std::string_view title = *line;
  const std::size_t end = title.find(']');
  if (!title.starts_with(kTitle) || end == std::string_view::npos) return daemon;
  const std::string_view name = title.substr(kTitle.size(), end - kTitle.size());
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return daemon;
  daemon.state = StepDaemon::State::named;
  daemon.job = name.substr(0, dot);
  daemon.step = name.substr(dot + 1);
  daemon.node = node_of_cgroup(fs.text(folder + "/cgroup").value_or(""));
  return daemon;
}

}  // namespace reveal
