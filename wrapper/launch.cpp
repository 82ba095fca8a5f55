#include "wrapper/launch.h"

#include <unistd.h>

#include <chrono>

#include "hdf5schema/basics/host_name.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

// The innermost launcher first: mpirun inside a Slurm step sets its own variables and inherits Slurm's.
// `with` makes the identity unique where the first variable alone does not: torchrun's run id is "none" by default, so
// its ranks find each other by their common parent, the agent. Hydra gives its ranks no identity at all.
// `rank`: its own; others may be of a launcher around it, or of a container platform (RANK of a pod).
// `of_step`: where Slurm itself sets the identity, this stands before the step's name; nullptr: it never does.
struct Launcher {
  const char* identity;
  const char* with;
  bool with_parent;
  const char* rank;
  const char* of_step;
};
constexpr Launcher kLaunchers[] = {
    {"TORCHELASTIC_RUN_ID", "MASTER_PORT", true, "RANK", nullptr},
    {"OMPI_MCA_ess_base_jobid", nullptr, false, "OMPI_COMM_WORLD_RANK", nullptr},
    {"PMIX_NAMESPACE", nullptr, false, "PMIX_RANK", "slurm.pmix."},
    {"PMI_JOBID", nullptr, false, "PMI_RANK", ""},
    {"MPI_LOCALNRANKS", nullptr, true, "PMI_RANK", nullptr},
    {"SLURM_STEP_ID", "SLURM_JOB_ID", false, "SLURM_PROCID", ""},
};

constexpr const char* kRankVariables[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
constexpr const char* kLocalSizeVariables[] = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"};

std::optional<int> first_number(std::span<const char* const> names, const Environment& environment) {
  for (const char* name : names) {
    if (const auto value = parse_int(environment(name)); value && *value >= 0 && *value < 1 << 24) {
      return static_cast<int>(*value);
    }
  }
  return std::nullopt;
}

/// A step of Slurm with one task may be a shell (srun --pty bash): the commands that it runs beside each other are
/// launches of their own. The one task may also be what mpirun starts on a node; then another launcher is known.
bool is_step_of_one_task(const Launcher& launcher, const std::string& identity, const Environment& environment) {
  if (launcher.of_step == nullptr || environment("SLURM_STEP_NUM_TASKS") != "1") return false;
  const std::string step = environment("SLURM_STEP_ID");
  return identity == (launcher.with != nullptr ? step : launcher.of_step + environment("SLURM_JOB_ID") + "." + step);
}

// ".4026531836", or "" if /proc does not have it.
std::string pid_namespace() {
  char link[64];  // pid:[4026531836]
  const ssize_t size = ::readlink("/proc/self/ns/pid", link, sizeof link);
  std::string text(link, size > 0 ? static_cast<std::size_t>(size) : 0);
  std::erase_if(text, [](char letter) { return letter < '0' || letter > '9'; });
  return text.empty() ? text : "." + text;
}

}  // namespace

std::string node_name(const RunSettings& settings, const Environment& environment) {
  std::string name = settings.node;
  if (name.empty()) name = environment("SLURMD_NODENAME");
  return file_name_part(name.empty() ? short_host_name() : name);
}

Launch identify_launch(const std::string& node, const Environment& environment) {
  Launch launch;
  launch.node = node;
  for (const Launcher& launcher : kLaunchers) {
    const std::string identity = environment(launcher.identity);
    if (identity.empty() || is_step_of_one_task(launcher, identity, environment)) continue;
    launch.shared = true;
    launch.key = identity;
    if (launcher.with != nullptr) launch.key += "." + environment(launcher.with);
    if (launcher.with_parent) launch.key += "." + std::to_string(::getppid());
    launch.rank = first_number(std::span(&launcher.rank, 1), environment);
    if (!launch.rank) launch.rank = first_number(kRankVariables, environment);
    launch.ranks_on_node = first_number(kLocalSizeVariables, environment);
    break;
  }
  if (!launch.shared) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    launch.key = std::to_string(::getpid()) + "." +
                 std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  }
  launch.key = file_name_part(launch.key);
  if (launch.shared) launch.key += pid_namespace();  // ranks identify each other, and their parent, by process id
  launch.key += "@" + node;
  return launch;
}

}  // namespace reveal
