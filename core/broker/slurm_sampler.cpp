#include "core/broker/slurm_sampler.h"

#include <sys/resource.h>
#include <syslog.h>
#include <time.h>

#include <algorithm>
#include <chrono>

#include "core/broker/broker.h"
#include "core/job/cpu_set.h"
#include "core/job/job.h"
#include "core/sampler/host.h"
#include "core/sampler/sampler.h"
#include "core/sampler/ticker.h"
#include "hdf5schema/basics/config_file.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/request.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;

constexpr auto kJobLook = 100ms;       // for the job's first process
constexpr auto kTaskPatience = 300ms;  // from there to its first task; this node may have none
constexpr int kNice = 5;

enum class Sight : std::uint8_t { nothing, process, task };

/// A task has begun the user's program: its environment can be read.
Sight look_at(const KernelTree& fs, const Job& job) {
  Sight sight = Sight::nothing;
  for (const auto& process : job.processes()) {
    if (process->launcher) continue;
    sight = Sight::process;
    if (!job.is_keeper(*process) && !fs.unrecorded_text("/proc/" + std::to_string(process->pid) + "/environ").empty())
      return Sight::task;
  }
  return sight;
}

/// Cpus on which the processes of a kind may run: the job's own, or Slurm's daemons of its steps, which are in the
/// job's cpuset and bound to no part of it.
CpuSet allowed_cpus(KernelTree& fs, const Job& job, bool launchers) {
  CpuSet allowed;
  for (const auto& process : job.processes()) {
    if (process->launcher != launchers) continue;
    const std::string status = fs.text("/proc/" + std::to_string(process->pid) + "/status").value_or("");
    allowed.insert(CpuSet::of_list(field_of(status, "Cpus_allowed_list")));
  }
  return allowed;
}

void keep_off_tasks(KernelTree& fs, const Job& job, const Host& host) {
  ::setpriority(PRIO_PROCESS, 0, kNice);
  CpuSet online;
  for (const int cpu : host.cpus_online) online.insert(cpu);
  cpus_for_sampler({.online = online,
                    .allocated = allowed_cpus(fs, job, true),
                    .tasks = allowed_cpus(fs, job, false),
                    .shared = job.saw_other_job()})
      .bind_this_process();
}

/// False when there was none before the end.
bool wait_for_job(const CollectOptions& options, const std::atomic<bool>& stop) {
  KernelTree fs(options.root);
  const Host host = Host::look(fs);
  const SystemClock clock;
  Job job(fs, host, JobSource::parse(options.job), 0);
  std::chrono::milliseconds patience = kTaskPatience;
  while (!stop) {
    job.update(clock.now());
    const Sight sight = look_at(fs, job);
    if (sight == Sight::process) patience -= kJobLook;
    if (sight == Sight::task || patience <= 0ms) {
      keep_off_tasks(fs, job, host);
      return true;
    }
    if (job.ended()) return false;
    const timespec look{0, std::chrono::nanoseconds(kJobLook).count()};
    ::nanosleep(&look, nullptr);  // the request to stop ends it
  }
  return false;
}

void note(const std::string& text) {
  ::syslog(LOG_DAEMON | LOG_NOTICE, "reveal: %s", text.c_str());
}

/// `value` where it is an interval that can be sampled at, else `fallback` and a line about it.
std::string interval_or(const std::string& value, const std::string& fallback, std::string_view least = "10ms") {
  const auto interval = parse_duration(value);
  if (interval && *interval >= *parse_duration(least) && *interval <= 60s) return value;
  note("interval \"" + value + "\" is not a time from " + std::string(least) + " to 60s; " + fallback + " is used");
  return fallback;
}

void set_interval(SlurmSampling& sampling, const std::string& value) {
  sampling.interval = interval_or(value, sampling.interval);
}

void set_min_interval(SlurmSampling& sampling, const std::string& value) {
  sampling.min_interval = interval_or(value, sampling.min_interval);
}

void set_probes(SlurmSampling& sampling, const std::string& value) {
  try {
    static_cast<void>(select_probes(split_names(value)));
    sampling.probes = value;
  } catch (const Error& error) {
    note(std::string(error.what()) + "; all probes are used");
  }
}

void set_min_seconds(SlurmSampling& sampling, const std::string& value) {
  if (const auto seconds = parse_int(value); seconds && *seconds >= 0) {
    sampling.min_seconds = static_cast<double>(*seconds);
  }
}

void set_max_bytes(SlurmSampling& sampling, const std::string& value) {
  if (const auto bytes = parse_bytes(value)) sampling.max_bytes = *bytes;
}

void set_retention(SlurmSampling& sampling, const std::string& value) {
  if (const auto retention = parse_retention(value)) {
    // The report looks at every row: who makes it makes a summary of the trace afterwards.
    sampling.retention = retention->form == Retention::Form::summary ? Retention() : *retention;
  } else {
    note("retain \"" + value +
         "\" is neither full nor summary, nor rolling with at least a minute, as in rolling=30min; " +
         "everything is kept");
  }
}

// Of the section [slurm].
constexpr struct {
  std::string_view key;
  void (*apply)(SlurmSampling&, const std::string& value);
} kSiteSettings[] = {{"interval", set_interval},       {"min_interval", set_min_interval}, {"probes", set_probes},
                     {"min_seconds", set_min_seconds}, {"spool_max", set_max_bytes},       {"retain", set_retention}};

}  // namespace

CpuSet cpus_for_sampler(const JobCpus& cpus) {
  const bool confined = cpus.allocated.size() > 0 && cpus.allocated.size() < cpus.online.size();
  CpuSet own = confined ? cpus.allocated : cpus.online;
  if (!confined && cpus.shared && cpus.tasks.size() > 0) return cpus.tasks;
  CpuSet free_cpus = own;
  free_cpus.erase(cpus.tasks);
  return free_cpus.size() > 0 ? free_cpus : own;
}

SlurmSampling read_sampling(const std::string& config, const std::string& request) {
  SlurmSampling sampling;
  for (const ConfigEntry& entry : parse_config(file_text(config), config).entries) {
    if (entry.section != "slurm" || entry.values.empty()) continue;
    for (const auto& setting : kSiteSettings) {
      if (setting.key == entry.key) setting.apply(sampling, entry.values.front());
    }
  }
  if (const std::string value = requested(request, "interval"); !value.empty()) {
    const bool shorter = parse_duration(value).value_or(60s) < *parse_duration(sampling.min_interval);
    sampling.interval = interval_or(value, shorter ? sampling.min_interval : sampling.interval, sampling.min_interval);
  }
  if (const std::string value = requested(request, "probes"); !value.empty()) set_probes(sampling, value);
  return sampling;
}

int sample_slurm_job(CollectOptions options, const SlurmSampling& sampling, const std::atomic<bool>& stop) {
  // A node of the job without a task, or a slow one, begins to record later than the others. All of them must come to
  // the same view of whether the job was too short, or its report would lack a node.
  options.watching_since_ns = SystemClock().now().monotonic_ns;
  if (!wait_for_job(options, stop)) return kTooShort;
  if (sampling.max_bytes > 0) options.max_bytes = sampling.max_bytes;
  options.min_seconds = sampling.min_seconds;
  options.retention = sampling.retention;
  const CollectResult result = collect(options, stop);
  if (!result.not_rewritten.empty()) note("the trace is whole and larger than it could be: " + result.not_rewritten);
  return result.kept ? kSampled : kTooShort;
}

}  // namespace reveal
