#include "core/snapshot/snapshot.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "core/job/cgroup.h"
#include "core/job/job_cpus.h"
#include "core/kernel_text/kernel_words.h"
#include "core/kernel_text/mountinfo.h"
#include "core/snapshot/interrupts.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

// Facts that are one short file each.
struct FileFact {
  std::string_view key;
  std::string_view path;
};
constexpr std::array kFileFacts = {
    FileFact{"kernel.release", "/proc/sys/kernel/osrelease"},
    FileFact{"kernel.boot_id", "/proc/sys/kernel/random/boot_id"},
    FileFact{"kernel.numa_balancing", "/proc/sys/kernel/numa_balancing"},
    FileFact{"kernel.sched_autogroup", "/proc/sys/kernel/sched_autogroup_enabled"},
    FileFact{"kernel.perf_event_paranoid", "/proc/sys/kernel/perf_event_paranoid"},
    FileFact{"kernel.clocksource", "/sys/devices/system/clocksource/clocksource0/current_clocksource"},
    FileFact{"kernel.clocksources", "/sys/devices/system/clocksource/clocksource0/available_clocksource"},
    FileFact{"cpu.online", "/sys/devices/system/cpu/online"},
    FileFact{"cpu.isolated", "/sys/devices/system/cpu/isolated"},
    FileFact{"cpu.smt", "/sys/devices/system/cpu/smt/control"},
    FileFact{"cpu.boost", "/sys/devices/system/cpu/cpufreq/boost"},
    FileFact{"cpu.no_turbo", "/sys/devices/system/cpu/intel_pstate/no_turbo"},
    FileFact{"cpu.most_performance", "/sys/devices/system/cpu/intel_pstate/max_perf_pct"},
    FileFact{"firmware.version", "/sys/class/dmi/id/bios_version"},
    FileFact{"firmware.date", "/sys/class/dmi/id/bios_date"},
    FileFact{"machine.model", "/sys/class/dmi/id/product_name"},
    FileFact{"cpu.idle_driver", "/sys/devices/system/cpu/cpuidle/current_driver"},
    FileFact{"numa.nodes", "/sys/devices/system/node/online"},
    FileFact{"vm.dirty_ratio", "/proc/sys/vm/dirty_ratio"},
    FileFact{"vm.dirty_bytes", "/proc/sys/vm/dirty_bytes"},
    FileFact{"vm.dirty_background_ratio", "/proc/sys/vm/dirty_background_ratio"},
    FileFact{"vm.dirty_background_bytes", "/proc/sys/vm/dirty_background_bytes"},
    FileFact{"vm.dirty_expire_centisecs", "/proc/sys/vm/dirty_expire_centisecs"},
    FileFact{"vm.dirty_writeback_centisecs", "/proc/sys/vm/dirty_writeback_centisecs"},
    FileFact{"vm.swappiness", "/proc/sys/vm/swappiness"},
    FileFact{"vm.overcommit_memory", "/proc/sys/vm/overcommit_memory"},
    FileFact{"vm.zone_reclaim_mode", "/proc/sys/vm/zone_reclaim_mode"},
    FileFact{"vm.transparent_hugepage", "/sys/kernel/mm/transparent_hugepage/enabled"},
    FileFact{"vm.transparent_hugepage_defrag", "/sys/kernel/mm/transparent_hugepage/defrag"},
    FileFact{"net.tcp_congestion_control", "/proc/sys/net/ipv4/tcp_congestion_control"},
    FileFact{"net.tcp_rmem", "/proc/sys/net/ipv4/tcp_rmem"},
    FileFact{"net.tcp_wmem", "/proc/sys/net/ipv4/tcp_wmem"},
    FileFact{"net.rmem_max", "/proc/sys/net/core/rmem_max"},
    FileFact{"net.wmem_max", "/proc/sys/net/core/wmem_max"},
    FileFact{"net.netdev_budget", "/proc/sys/net/core/netdev_budget"},
    FileFact{"net.rps_flow_entries", "/proc/sys/net/core/rps_sock_flow_entries"},
    FileFact{"net.netdev_max_backlog", "/proc/sys/net/core/netdev_max_backlog"},
    FileFact{"net.busy_poll", "/proc/sys/net/core/busy_poll"},
};

// Facts of each cpu, in its folder "cpufreq".
constexpr std::array kClockFacts = {
    FileFact{"cpu.governor", "scaling_governor"},
    FileFact{"cpu.frequency_driver", "scaling_driver"},
    FileFact{"cpu.frequency_limit", "scaling_max_freq"},
    FileFact{"cpu.frequency_most", "cpuinfo_max_freq"},
    FileFact{"cpu.energy_preference", "energy_performance_preference"},
};

// Exact names only: a pattern would let tokens through.
constexpr std::array<std::string_view, 63> kEnvironment = {"OMP_NUM_THREADS",
                                                           "OMP_PROC_BIND",
                                                           "OMP_PLACES",
                                                           "OMP_WAIT_POLICY",
                                                           "OMP_SCHEDULE",
                                                           "OMP_DYNAMIC",
                                                           "GOMP_CPU_AFFINITY",
                                                           "KMP_AFFINITY",
                                                           "KMP_BLOCKTIME",
                                                           "MKL_NUM_THREADS",
                                                           "OPENBLAS_NUM_THREADS",
                                                           "NUMEXPR_NUM_THREADS",
                                                           "MALLOC_ARENA_MAX",
                                                           "CUDA_VISIBLE_DEVICES",
                                                           "NVIDIA_VISIBLE_DEVICES",
                                                           "ROCR_VISIBLE_DEVICES",
                                                           "HIP_VISIBLE_DEVICES",
                                                           "ZE_AFFINITY_MASK",
                                                           "CUDA_LAUNCH_BLOCKING",
                                                           "TORCH_DISTRIBUTED_DEBUG",
                                                           "NCCL_DEBUG",
                                                           "NCCL_SOCKET_IFNAME",
                                                           "NCCL_IB_HCA",
                                                           "NCCL_IB_DISABLE",
                                                           "NCCL_P2P_DISABLE",
                                                           "NCCL_P2P_LEVEL",
                                                           "NCCL_SHM_DISABLE",
                                                           "NCCL_ALGO",
                                                           "NCCL_PROTO",
                                                           "NCCL_NET_GDR_LEVEL",
                                                           "NCCL_NET_GDR_READ",
                                                           "NCCL_IB_ADAPTIVE_ROUTING",
                                                           "NCCL_DMABUF_ENABLE",
                                                           "NCCL_MIN_NCHANNELS",
                                                           "NCCL_MAX_NCHANNELS",
                                                           "NCCL_BUFFSIZE",
                                                           "NCCL_IB_QPS_PER_CONNECTION",
                                                           "NCCL_IB_SPLIT_DATA_ON_QPS",
                                                           "NCCL_NET",
                                                           "NCCL_CROSS_NIC",
                                                           "NCCL_SOCKET_NTHREADS",
                                                           "NCCL_NSOCKS_PERTHREAD",
                                                           "GLOO_SOCKET_IFNAME",
                                                           "UCX_TLS",
                                                           "UCX_NET_DEVICES",
                                                           "SLURM_JOB_ID",
                                                           "SLURM_JOB_NAME",
                                                           "SLURM_ARRAY_JOB_ID",
                                                           "SLURM_ARRAY_TASK_ID",
                                                           "SLURM_JOB_PARTITION",
                                                           "SLURM_JOB_NUM_NODES",
                                                           "SLURM_NTASKS",
                                                           "SLURM_NTASKS_PER_NODE",
                                                           "SLURM_CPUS_PER_TASK",
                                                           "SLURM_CPU_BIND",
                                                           "SLURM_CPUS_ON_NODE",
                                                           "SLURM_MEM_PER_NODE",
                                                           "SLURM_MEM_PER_CPU",
                                                           "SLURM_GPUS_ON_NODE",
                                                           "SLURM_JOB_GPUS",
                                                           "SLURM_STEP_GPUS",
                                                           "SLURM_DISTRIBUTION",
                                                           "SLURM_HINT"};

constexpr std::array<std::string_view, 8> kLimits = {"Max cpu time",   "Max stack size",       "Max resident set",
                                                     "Max open files", "Max locked memory",    "Max address space",
                                                     "Max processes",  "Max realtime priority"};

constexpr std::size_t kLongestValue = 400;

class Facts {
 public:
  void add(std::string key, std::string value) {
    if (value.empty()) return;
    if (value.size() > kLongestValue) value = value.substr(0, kLongestValue - 3) + "...";
    std::replace(value.begin(), value.end(), '\t', ' ');
    std::replace(value.begin(), value.end(), '\n', ' ');
    facts_.emplace_back(std::move(key), std::move(value));
  }
  void add_all(const Snapshot& facts) {
    for (const auto& [key, value] : facts) add(key, value);
  }
  Snapshot sorted() && {
    std::sort(facts_.begin(), facts_.end());
    return std::move(facts_);
  }

 private:
  Snapshot facts_;
};

std::string hexadecimal(std::uint64_t number) {
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[(number >> shift) & 0xf];
  return text;
}

// FNV-1a, the same on every node and in every release: command lines are compared, never shown (they may hold secrets).
std::uint64_t hash_of(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  return hash;
}

// "model name : AMD EPYC" of /proc/cpuinfo; other architectures use other words.
std::string cpu_model(std::string_view text) {
  for (const std::string_view key : {"model name", "Model Name", "cpu model", "Processor", "cpu\t"}) {
    std::string_view rest = text;
    std::string_view line;
    while (next_line(rest, line)) {
      const std::size_t colon = line.find(": ");
      if (line.substr(0, key.size()) == key && colon != std::string_view::npos)
        return std::string(line.substr(colon + 2));
    }
  }
  return "";
}

void add_huge_pages(KernelTree& fs, Facts& facts) {
  for (const std::string& size : fs.list("/sys/kernel/mm/hugepages")) {
    facts.add("vm." + size, fs.word("/sys/kernel/mm/hugepages/" + size + "/nr_hugepages"));
  }
}

// Only interrupts that happened: the affinity of one that never fires does not matter.
void add_interrupts(KernelTree& fs, Facts& facts) {
  constexpr std::int64_t kMoving = 100;
  constexpr std::size_t kMost = 128;
  for (const InterruptFact& interrupt : interrupt_facts(fs, kMoving, kMost)) {
    const std::string key = "irq." + std::to_string(interrupt.number);
    facts.add(key + ".name", interrupt.name);
    facts.add(key + ".affinity", interrupt.affinity);
    facts.add(key + ".effective", interrupt.effective);
    facts.add(key + ".device", interrupt.device);
    facts.add(key + ".numa_node", interrupt.numa_node);
    facts.add(key + ".managed", interrupt.managed);
  }
}

using CpusByValue = std::map<std::string, std::vector<int>, std::less<>>;

// "performance", or "performance 0-63; powersave 64-127" where the cpus differ or some have no value.
std::string value_of_cpus(const CpusByValue& cpus, std::size_t all) {
  std::string text;
  for (const auto& [value, members] : cpus) {
    text += (text.empty() ? "" : "; ") + value;
    if (members.size() < all) text += ' ' + format_cpu_list(members);
  }
  return text;
}

void add_clock_settings(KernelTree& fs, const Host& host, Facts& facts) {
  for (const FileFact& fact : kClockFacts) {
    CpusByValue cpus;
    for (const int cpu : host.cpus_online) {
      std::string path = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpufreq/";
      const std::string value = fs.word(path.append(fact.path));
      if (!value.empty()) cpus[value].push_back(cpu);
    }
    facts.add(std::string(fact.key), value_of_cpus(cpus, host.cpus_online.size()));
  }
}

// Revision of the microcode; cores with different ones are a failed update. x86 only.
std::string microcode(std::string_view cpuinfo) {
  CpusByValue cpus;
  std::string_view line;
  std::size_t all = 0;
  int cpu = 0;
  while (next_line(cpuinfo, line)) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    std::string_view value = line.substr(colon + 1);
    if (line.starts_with("processor")) {
      cpu = static_cast<int>(parse_int(next_word(value)).value_or(0));
      ++all;
    }
    if (line.starts_with("microcode")) cpus[std::string(next_word(value))].push_back(cpu);
  }
  return value_of_cpus(cpus, all);
}

// The kernel's mitigation of each flaw of the processor, and the setting of its command line for all of them: some of
// it costs much time. The rest of the command line may hold secrets.
void add_mitigations(KernelTree& fs, Facts& facts) {
  constexpr std::string_view kFolder = "/sys/devices/system/cpu/vulnerabilities";
  for (const std::string& flaw : fs.list(kFolder)) {
    facts.add("cpu.vulnerability." + flaw, fs.word(std::string(kFolder) + '/' + flaw));
  }
  facts.add("kernel.mitigations", fs.fact("@mitigations", [&fs]() -> std::string {
    const std::string text = fs.unrecorded_text("/proc/cmdline");
    return text.empty() ? "" : mitigations_option(text);
  }));
}

// Adds the power limits of whole packages, in microwatts: "cpu.power_limit.0" and the rated power of the processor. The
// long-term limit is the one that lasts; https://docs.kernel.org/power/powercap/powercap.html
void add_power_limits(KernelTree& fs, Facts& facts) {
  constexpr std::string_view kFolder = "/sys/class/powercap";
  constexpr std::string_view kZone = "intel-rapl:";
  for (const std::string& zone : fs.list(kFolder)) {
    const std::string folder = std::string(kFolder) + '/' + zone;
    if (!zone.starts_with(kZone) || !fs.word(folder + "/name").starts_with("package")) continue;
    if (fs.word(folder + "/constraint_0_name") != "long_term") continue;
    const std::string package = zone.substr(kZone.size());
    facts.add("cpu.power_limit." + package, fs.word(folder + "/constraint_0_power_limit_uw"));
    facts.add("cpu.power_limit_most." + package, fs.word(folder + "/constraint_0_max_power_uw"));
  }
}

/// "" where other processes are hidden, in a container or by hidepid.
std::string irqbalance(KernelTree& fs) {
  if (fs.word("/proc/2/comm") != "kthreadd") return "";
  for (const std::string& name : fs.list("/proc")) {
    if (parse_int(name) && fs.word("/proc/" + name + "/comm") == "irqbalance") return "running";
  }
  return "not running";
}

void add_working_directory(KernelTree& fs, const std::string& folder, Facts& facts) {
  const auto directory = fs.link(folder + "/cwd");
  if (!directory) return;
  const MountPoint mount = mount_of(fs.text(folder + "/mountinfo").value_or(""), *directory);
  facts.add("job.cwd_mount", mount.folder);
  facts.add("job.cwd_filesystem", mount.type);
}

void add_limits(KernelTree& fs, const std::string& folder, Facts& facts) {
  const std::string limits = fs.text(folder + "/limits").value_or("");
  std::string_view rest = limits;
  std::string_view line;
  while (next_line(rest, line)) {
    for (const std::string_view limit : kLimits) {
      if (line.substr(0, limit.size()) != limit) continue;
      std::string_view values = line.substr(limit.size());
      std::string key(limit.substr(4));
      std::replace(key.begin(), key.end(), ' ', '_');
      facts.add("job.limit." + key, std::string(next_word(values)));
    }
  }
}

std::string environment_text(KernelTree& fs, const std::string& folder) {
  return fs.fact("@environment", [&] {
    std::string text;
    for (const auto& [name, value] : allowed_environment(fs.unrecorded_text(folder + "/environ"))) {
      text.append(name).append(1, '=').append(value).append(1, '\0');
    }
    return text;
  });
}

/// The first process that has begun its program: only then it has the job's environment; 0 if there is none.
int first_begun(KernelTree& fs, const Job& job) {
  const std::string pid = fs.fact("@job/first", [&] {
    for (const auto& process : job.processes()) {
      if (process->launcher || job.is_keeper(*process)) continue;
      if (fs.unrecorded_text("/proc/" + std::to_string(process->pid) + "/environ").empty()) continue;
      return std::to_string(process->pid);
    }
    return std::string();
  });
  return static_cast<int>(parse_int(pid).value_or(0));
}

void add_job(KernelTree& fs, const Host& host, const Job& job, Facts& facts) {
  const bool alone = job.processes().size() == 1;
  const JobProcess* first = job.find(first_begun(fs, job));
  for (const auto& process : job.processes()) {
    if (first == nullptr && (alone || !process->launcher)) first = process.get();
  }
  const CpuSet allowed = cpus_of_job(fs, job, alone ? CpusOf::all : CpusOf::tasks);
  std::vector<int> cpus;
  for (const int cpu : host.cpus_online) {
    if (allowed.contains(cpu)) cpus.push_back(cpu);
  }
  facts.add("job.cpus_allowed", format_cpu_list(cpus));
  facts.add("job.cpus_owned", fs.word(cpuset_path(fs, job)));
  for (const Cgroup& group : cgroups_of(fs, job)) {
    const bool interesting =
        group.controllers.empty() || group.has("cpu") || group.has("memory") || group.has("cpuset");
    if (interesting) facts.add("job.cgroup" + (group.controllers.empty() ? "" : '.' + group.controllers), group.path);
  }
  // The launcher has not started its command yet, which will inherit all this from it.
  if (first == nullptr && !job.processes().empty()) first = job.processes().front().get();
  if (first == nullptr) return;
  const std::string folder = "/proc/" + std::to_string(first->pid);
  add_working_directory(fs, folder, facts);
  add_limits(fs, folder, facts);
  for (const auto& [name, value] : allowed_environment(environment_text(fs, folder))) facts.add("env." + name, value);
}

}  // namespace

Snapshot allowed_environment(std::string_view environ) {
  Snapshot kept;
  while (!environ.empty()) {
    const std::size_t end = std::min(environ.find('\0'), environ.size());
    const std::string_view entry = environ.substr(0, end);
    environ.remove_prefix(std::min(end + 1, environ.size()));
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = entry.substr(0, equals);
    if (std::find(kEnvironment.begin(), kEnvironment.end(), name) == kEnvironment.end()) continue;
    kept.emplace_back(name, entry.substr(equals + 1));
  }
  return kept;
}

std::string mitigations_option(std::string_view command_line) {
  constexpr std::string_view kOption = "mitigations=";
  std::string value = "not set";
  for (std::string_view word = next_word(command_line); !word.empty() && word != "--"; word = next_word(command_line)) {
    if (word.starts_with(kOption)) value = word.substr(kOption.size());
  }
  return value;
}

Snapshot job_snapshot(KernelTree& fs, const Host& host, const Job& job) {
  Facts facts;
  add_job(fs, host, job, facts);
  return std::move(facts).sorted();
}

Snapshot take_snapshot(KernelTree& fs, const Host& host, const Job* job) {
  Facts facts;
  for (const FileFact& fact : kFileFacts) facts.add(std::string(fact.key), fs.word(fact.path));
  facts.add("kernel.command_line_hash",
            fs.fact("@cmdline", [&fs] { return hexadecimal(hash_of(fs.unrecorded_text("/proc/cmdline"))); }));
  const std::string cpuinfo = fs.text("/proc/cpuinfo").value_or("");
  facts.add("cpu.model", cpu_model(cpuinfo));
  facts.add("cpu.microcode", microcode(cpuinfo));
  facts.add("cpu.count", std::to_string(host.cpus_online.size()));
  std::int64_t kibibytes = 0;
  if (parse_counter(field_of(fs.text("/proc/meminfo").value_or(""), "MemTotal"), kibibytes) &&
      scaled(kibibytes, 1024) != kMissing) {
    facts.add("memory.total", std::to_string(scaled(kibibytes, 1024)));
  }
  if (host.page_bytes != kMissing) facts.add("memory.page_bytes", std::to_string(host.page_bytes));
  facts.add("reveal.capabilities", std::string(field_of(fs.text("/proc/self/status").value_or(""), "CapEff")));
  facts.add("irq.irqbalance", irqbalance(fs));
  add_huge_pages(fs, facts);
  add_clock_settings(fs, host, facts);
  add_mitigations(fs, facts);
  add_power_limits(fs, facts);
  add_interrupts(fs, facts);
  facts.add_all(network_links(fs));
  facts.add_all(interface_addresses(fs));
  facts.add_all(rdma_ports(fs));
  facts.add_all(numa_nodes(fs));
  facts.add_all(pci_links(fs));
  facts.add_all(gpu_driver(fs));
  facts.add_all(clock_state(fs));
  facts.add_all(counted_since_start(fs));
  facts.add_all(core_threads(fs, host.cpus_online));
  if (job != nullptr) add_job(fs, host, *job, facts);
  return std::move(facts).sorted();
}

}  // namespace reveal
