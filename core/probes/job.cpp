// The job as a whole: its CPU time, its processes, and the cpus it may use.
// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
#include <algorithm>
#include <optional>

#include "core/job/cgroup.h"
#include "core/job/cpu_set.h"
#include "core/kernel_text/kernel_words.h"
#include "core/sampler/per_cpu.h"
#include "core/sampler/probe.h"
#include "hdf5schema/basics/text.h"

namespace reveal::probe::job {
namespace {

constexpr std::size_t kMostMasks = 256;  // masks of processes read per second

constexpr MetricHelp kCpu[] = {
    {"job.cpu_time", "CPU time of the job's processes and of all children they waited for."},
    {"job.wait_time", "Time in which threads of the measured processes were ready but had no cpu."},
};
constexpr MetricHelp kProcesses[] = {
    {"job.processes", "Processes of the job."},
    {"job.threads", "Their threads."},
    {"job.blocked", "Processes whose main thread waits for a disk (state D)."},
    {"job.running", "Processes whose main thread runs or is ready (state R)."},
    {"job.stopped", "Processes stopped by a signal or a debugger (states T and t)."},
};
constexpr MetricHelp kCpus[] = {
    {"job.cpus_allowed", "Cpus at least one process of the job may run on."},
    {"job.cpus_owned", "Cpus of the job's cpuset; without a cpuset, cpus of the node."},
};
constexpr MetricHelp kAllowed[] = {
    {"job.cpu_allowed",
     "1 if a process of the job may run on this cpu; missing if the job may run on only some of many cpus."}};

constexpr FamilyTable kJobFamilies[] = {
    {"job/cpu", Kind::counter, Unit::nanoseconds, Scope::job, Subsystem::process, "CPU time and waiting of the job",
     "/proc/PID/stat, /proc/PID/task/*/schedstat", kCpu},
    {"job/processes", Kind::gauge, Unit::count, Scope::job, Subsystem::process, "Processes of the job",
     "/proc/PID/stat", kProcesses},
};
constexpr FamilyTable kCpuFamilies[] = {
    {"job/cpus", Kind::gauge, Unit::count, Scope::job, Subsystem::process, "How many cpus the job may use",
     "/proc/PID/status, cpuset", kCpus},
    {"job/cpu_allowed", Kind::state, Unit::count, Scope::cpu, Subsystem::process, "Which cpus the job may use",
     "/proc/PID/status", kAllowed},
};

class JobProbe final : public Probe {
 public:
  explicit JobProbe(const ProbeContext& context)
      : context_(context), cpu_(context.family(kJobFamilies[0])), processes_(context.family(kJobFamilies[1])) {
    for (const MetricHelp& metric : kCpu) cpu_.add(metric.name, "", "job");
    for (const MetricHelp& metric : kProcesses) processes_.add(metric.name, "", "job");
  }

  void sample() noexcept override {
    cpu_.begin();
    cpu_.set(0, context_.job->cpu_time_ns());
    cpu_.set(1, context_.slots->wait_ns());
    cpu_.commit();
    std::int64_t processes = 0;
    std::int64_t threads = 0;
    std::int64_t blocked = 0;
    std::int64_t running = 0;
    std::int64_t stopped = 0;
    for (const auto& process : context_.job->processes()) {
      if (process->launcher) continue;
      ++processes;
      threads += process->stat.threads;
      blocked += process->stat.state == 'D' ? 1 : 0;
      running += process->stat.state == 'R' ? 1 : 0;
      stopped += process->stat.state == 'T' || process->stat.state == 't' ? 1 : 0;
    }
    processes_.begin();
    processes_.set(0, processes);
    processes_.set(1, threads);
    processes_.set(2, blocked);
    processes_.set(3, running);
    processes_.set(4, stopped);
    processes_.commit();
  }

 private:
  ProbeContext context_;
  Family& cpu_;
  Family& processes_;
};

class JobCpusProbe final : public Probe {
 public:
  explicit JobCpusProbe(const ProbeContext& context)
      : context_(context), cpus_(context.family(kCpuFamilies[0])), allowed_(context.family(kCpuFamilies[1])) {
    for (const MetricHelp& metric : kCpus) cpus_.add(metric.name, "", "job");
    group_cpus();
    owned_ = context.fs.open(cpuset_path(context.fs, *context.job), 256);
  }

  void sample() noexcept override {
    read_masks();
    cpus_.begin();
    allowed_.begin();
    if (known_) {
      std::int64_t count = 0;
      for (std::size_t i = 0; i < groups_.size(); ++i) {
        const auto members =
            std::count_if(groups_[i].begin(), groups_[i].end(), [this](int cpu) { return union_.contains(cpu); });
        count += members;
        const bool all = static_cast<std::size_t>(members) == groups_[i].size();
        if (all || members == 0) allowed_.set(static_cast<std::int32_t>(i), all ? 1 : 0);
      }
      cpus_.set(0, count);
    }
    const auto size = static_cast<std::int64_t>(CpuSet::of_list(owned_.read()).size());
    if (size > 0) cpus_.set(1, size);
    cpus_.commit();
    allowed_.commit();
  }

 private:
  // The groups are those of cpu times: each cpu by itself, or on large hosts in the same groups
  // (core/sampler/per_cpu.h).
  void group_cpus() {
    const std::vector<int>& online = context_.host.cpus_online;
    const bool many = online.size() > kMostInDetail;
    const bool few_of_job = context_.job_cpus->size() <= kMostInDetail;
    std::vector<int> others;
    for (const int cpu : online) {
      const std::string_view role = context_.role_of_cpu(cpu);
      if (many && role != "job") {
        others.push_back(cpu);
      } else if (!many || few_of_job) {
        groups_.push_back({cpu});
        allowed_.add(kAllowed[0].name, "cpu" + std::to_string(cpu), role);
      }
    }
    if (many && !few_of_job) {
      groups_.push_back(*context_.job_cpus);
      allowed_.add(kAllowed[0].name, kJobCpus, "job");
    }
    if (others.empty()) return;
    groups_.push_back(std::move(others));
    allowed_.add(kAllowed[0].name, kOtherCpus);
  }

  void read_masks() {
    union_ = {};
    known_ = false;
    std::size_t left = kMostMasks;
    if (files_generation_ != context_.job->generation() || skipped_) {
      files_generation_ = context_.job->generation();
      files_.clear();
      skipped_ = false;
      for (const auto& process : context_.job->processes()) {
        if (process->launcher) continue;
        // A short one is gone before the next look; until then it has its parent's mask.
        if (looked_ns_ && !process->root && process->found_ns > *looked_ns_) {
          skipped_ = true;
          continue;
        }
        if (left-- == 0) break;
        files_.push_back(context_.fs.open("/proc/" + std::to_string(process->pid) + "/status", 2048));
      }
    }
    looked_ns_ = context_.sink.now();
    for (KernelFile& file : files_) {
      const std::string_view list = field_of(file.read(), "Cpus_allowed_list");
      if (list.empty()) continue;
      known_ = true;
      union_.insert(CpuSet::of_list(list));
    }
  }

  ProbeContext context_;
  Family& cpus_;
  Family& allowed_;
  std::vector<std::vector<int>> groups_;  // group of each channel
  KernelFile owned_;
  std::vector<KernelFile> files_;
  std::uint64_t files_generation_ = 0;
  bool skipped_ = false;  // processes that were too young
  std::optional<std::int64_t> looked_ns_;
  CpuSet union_;
  bool known_ = false;
};

std::unique_ptr<Probe> open_job(const ProbeContext& context) {
  need_job(context);
  return std::make_unique<JobProbe>(context);
}

std::unique_ptr<Probe> open_job_cpus(const ProbeContext& context) {
  need_job(context);
  return std::make_unique<JobCpusProbe>(context);
}

const RegisteredProbe job{{.name = "job",
                           .help = "CPU time, waiting and processes of the whole job",
                           .families = kJobFamilies,
                           .open = open_job,
                           .remedy = "run the command under reveal-run or srun --reveal"}};
const RegisteredProbe cpus{{.name = "job_cpus",
                            .help = "The cpus that the job owns, and those that its processes may use",
                            .period = 1s,
                            .families = kCpuFamilies,
                            .open = open_job_cpus,
                            .remedy = "run the command under reveal-run or srun --reveal"}};

}  // namespace
}  // namespace reveal::probe::job
