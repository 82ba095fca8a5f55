#include "core/broker/slurm_sampler.h"

#include <sys/resource.h>
#include <syslog.h>
#include <time.h>

#include <algorithm>
#include <chrono>

#include "core/broker/broker.h"
#include "core/intervention/intervention.h"
#include "core/job/cpu_set.h"
#include "core/job/job.h"
#include "core/job/job_cpus.h"
#include "core/sampler/host.h"
#include "core/sampler/sampler.h"
#include "core/sampler/ticker.h"
#include "core/stack/stack_functions.h"
#include "hdf5schema/basics/config.h"
#include "hdf5schema/basics/error.h"
#include "hdf5schema/basics/request.h"
#include "hdf5schema/basics/text.h"

namespace reveal {
namespace {

using namespace std::chrono_literals;

constexpr auto kJobLook = 100ms;       // for the job's first process
constexpr auto kTaskPatience = 300ms;  // from there to its first task; this node may have none
constexpr int kNice = 5;
constexpr const char* kRequest = "--reveal";

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

void keep_off_tasks(KernelTree& fs, const Job& job, const Host& host) {
  ::setpriority(PRIO_PROCESS, 0, kNice);
  CpuSet online;
  for (const int cpu : host.cpus_online) online.insert(cpu);
  cpus_for_sampler({.online = online,
                    .allocated = cpus_of_job(fs, job, CpusOf::launchers),
                    .tasks = cpus_of_job(fs, job, CpusOf::tasks),
                    .shared = job.saw_other_job()})
      .bind_this_process();
}

/// False when there was none before the end.
bool wait_for_job(KernelTree& fs, const Host& host, Job& job, const std::atomic<bool>& stop) {
  const SystemClock clock;
  std::chrono::milliseconds patience = kTaskPatience;
  while (!stop) {
    job.update(clock.now(), Job::Count::no);
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

std::string mistake_in_probes(const std::vector<std::string>& values) {
  try {
    for (const std::string& value : values) static_cast<void>(select_probes(split_names(value)));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}
const RegisteredConfigCheck kProbesCheck{config_key("slurm", "probes"), mistake_in_probes};

std::string mistake_in_functions(const std::vector<std::string>& values) {
  try {
    for (const std::string& value : values) check_function_names(split_names(value));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}
const RegisteredConfigCheck kFunctionsCheck{config_key("slurm", "stack_without"), mistake_in_functions};

/// The user's value replaces the site's if it is valid.
void apply_request(Config& config, const ConfigKey& key, const std::string& value) {
  if (value.empty()) return;
  const std::string mistake = config.set(key, {value}, kRequest);
  if (!mistake.empty()) {
    note(kRequest + ("=" + std::string(key.key)) + mistake + "; " + written(key, config.list(key)) + " is used");
  }
}

/// Also if the site forbids it: then the coverage reports that.
bool is_stack_wanted(const std::string& site, const std::string& request, const std::string& environment) {
  Config user;
  const ConfigKey& key = config_key("run", "stack");
  apply_request(user, key, requested(request, "stack"));
  if (!user.place(key).empty()) return user.truth(key);
  return parse_truth(environment).value_or(site == "on");
}

}  // namespace

CpuSet cpus_for_sampler(const JobCpus& cpus) {
  const bool confined = cpus.allocated.size() > 0 && cpus.allocated.size() < cpus.online.size();
  CpuSet own = confined ? cpus.allocated : cpus.online;
  if (!confined && cpus.shared && cpus.tasks.size() > 0) return cpus.tasks;
  CpuSet free_cpus = own;
  free_cpus.erase(cpus.tasks);
  return free_cpus.size() > 0 ? free_cpus : own;
}

SlurmSampling read_sampling(const std::string& file, const std::string& request, const std::string& stack) {
  Config config;
  config.read_file(file, ConfigOwner::site);  // the broker has reported its problems
  apply_request(config, config_key("slurm", "interval"), requested(request, "interval"));
  apply_request(config, config_key("slurm", "probes"), requested(request, "probes"));
  SlurmSampling sampling;
  sampling.interval = config.text(config_key("slurm", "interval"));
  const std::string least = config.text(config_key("slurm", "min_interval"));
  if (config.place(config_key("slurm", "interval")) == kRequest &&
      config.time(config_key("slurm", "interval")) < config.time(config_key("slurm", "min_interval"))) {
    note("--reveal=interval=" + sampling.interval + " is below min_interval; " + least + " is used");
    sampling.interval = least;
  }
  sampling.probes = config.text(config_key("slurm", "probes"));
  sampling.gpu_library = config.text(config_key("gpu", "library"));
  const std::string site_stack = config.text(config_key("slurm", "stack"));
  sampling.stack = is_stack_wanted(site_stack, request, stack);
  sampling.stack_forbidden = site_stack == "never";
  sampling.stack_budget = config.text(config_key("slurm", "stack_budget"));
  sampling.stack_without = config.text(config_key("slurm", "stack_without"));
  if (!refuses(requested(request, "intervene")))
    sampling.interventions = config.text(config_key("intervention", "rules"));
  sampling.faster_reading = config.truth(config_key("slurm", "faster_reading"));
  sampling.min_seconds = static_cast<double>(config.whole(config_key("slurm", "min_seconds")));
  sampling.max_bytes = config.size(config_key("slurm", "spool_max"));
  // The report reads every row: it reduces the trace to a summary afterwards.
  const auto retention = parse_retention(config.text(config_key("slurm", "retain")));
  if (retention && retention->form != Retention::Form::summary) sampling.retention = *retention;
  return sampling;
}

int sample_slurm_job(CollectOptions options, const SlurmSampling& sampling, const std::atomic<bool>& stop) {
  // A node of the job without a task, or a slow one, begins to record later than the others. All of them must come to
  // the same view of whether the job was too short, or its report would lack a node.
  options.watching_since_ns = SystemClock().now().monotonic_ns;
  options.await_job = [&stop](KernelTree& fs, const Host& host, Job& job) { return wait_for_job(fs, host, job, stop); };
  options.max_bytes = sampling.max_bytes;
  options.min_seconds = sampling.min_seconds;
  options.retention = sampling.retention;
  const CollectResult result = collect(options, stop);
  if (!result.not_rewritten.empty()) note("the trace is complete but larger than necessary: " + result.not_rewritten);
  return result.kept ? kSampled : kTooShort;
}

}  // namespace reveal
