#include "core/pmu/counting_scope.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "core/job/cgroup.h"
#include "core/pmu/perf_broker.h"
#include "hdf5schema/basics/error.h"

namespace reveal {
namespace {

constexpr PerfEvent kTrial{.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_CPU_CLOCK};
constexpr std::size_t kFilesBesidePerf = 128;  // kernel texts beyond those that are open, the trace, its library

/// The hierarchy in which perf finds a task's cgroup: its own of version 1 where that is mounted, else version 2.
std::optional<Cgroup> perf_cgroup(const ProbeContext& context) {
  const std::vector<Cgroup> groups = cgroups_of(context.fs, *context.job);
  const Cgroup* found = nullptr;
  for (const Cgroup& group : groups) {
    if (group.has("perf_event")) found = &group;
    if (group.controllers.empty() && found == nullptr) found = &group;
  }
  if (found == nullptr || !why_not_the_jobs(context.fs, *context.job, *found).empty()) return std::nullopt;
  return *found;
}

const std::vector<int>& counted_cpus(const ProbeContext& context) {
  const bool of_job = context.job_cpus != nullptr && !context.job_cpus->empty();
  return of_job ? *context.job_cpus : context.host.cpus_online;
}

bool owns_the_node(const ProbeContext& context) {
  if (context.job == nullptr) return true;  // the node itself is observed
  return counted_cpus(context).size() == context.host.cpus_online.size() && !context.job->saw_other_job();
}

void add_cpus(const ProbeContext& context, CountingScope& scope) {
  for (const int cpu : counted_cpus(context)) scope.targets.push_back({.cpu = cpu, .cgroup_fd = scope.cgroup.get()});
}

int try_out(const OpenPerf& open, const PerfTarget& target, bool user_only) {
  return open({.event = kTrial, .target = target, .user_only = user_only}).error;
}

/// Each with the kernel's work for it, if that is allowed.
bool take_cgroup(const ProbeContext& context, CountingScope& scope) {
  const auto group = context.job != nullptr ? perf_cgroup(context) : std::nullopt;
  if (!group) return false;
  scope.cgroup = Descriptor(::open(group->folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!scope.cgroup) return false;
  scope.kind = CountingScope::Kind::cgroup;
  const PerfTarget first{.cpu = counted_cpus(context).front(), .cgroup_fd = scope.cgroup.get()};
  scope.open = open_perf_event;
  if (try_out(scope.open, first, false) != 0) {
    if (context.perf_broker < 0) return false;
    scope.open = perf_broker_client(context.perf_broker);
    const int error = try_out(scope.open, first, false);
    scope.user_only = error == EACCES && try_out(scope.open, first, true) == 0;
    if (error != 0 && !scope.user_only) return false;
    if (scope.user_only) {
      scope.note =
          "kernel time of the job is not counted (kernel.perf_event_paranoid = " + perf_event_paranoid(context.fs) +
          ')';
    }
  }
  add_cpus(context, scope);
  return true;
}

bool take_cpus(const ProbeContext& context, CountingScope& scope) {
  if (!owns_the_node(context)) return false;
  scope.kind = CountingScope::Kind::cpus;
  scope.cgroup.close();
  scope.open = open_perf_event;
  if (try_out(scope.open, {.cpu = counted_cpus(context).front()}, false) != 0) return false;
  add_cpus(context, scope);
  if (context.job != nullptr) scope.note = "all activity on the job's cpus is counted, including reveal and the system";
  return true;
}

void take_tasks(const ProbeContext& context, CountingScope& scope) {
  const std::string paranoid = perf_event_paranoid(context.fs);
  const PerfTarget self{.task = ::getpid()};
  scope.kind = CountingScope::Kind::tasks;
  scope.cgroup.close();
  scope.open = open_perf_event;
  int error = try_out(scope.open, self, false);
  if (error == EACCES) {
    scope.user_only = true;
    error = try_out(scope.open, self, true);
  }
  if (error != 0) throw Unavailable(why_not_counted(error, paranoid));
  if (context.job == nullptr) {
    throw Unavailable(
        "without a job (--job) only whole cpus could be counted, and the kernel does not allow this user to count them "
        "(" +
        std::string("kernel.perf_event_paranoid = ") + paranoid + ')');
  }
  scope.note =
      scope.user_only
          ? "the job's own processes are counted, without their kernel time (kernel.perf_event_paranoid = " + paranoid +
                ')'
          : "the job's own processes are counted";
}

}  // namespace

std::chrono::nanoseconds counting_period(const Host& host) {
  constexpr struct {
    std::size_t cpus;
    std::chrono::nanoseconds period;
  } kPeriods[] = {{20, 100ms}, {200, 1s}, {2000, 10s}};
  for (const auto& row : kPeriods) {
    if (host.cpus_online.size() <= row.cpus) return row.period;
  }
  return 60s;
}

std::string perf_event_paranoid(KernelTree& fs) {
  return fs.word("/proc/sys/kernel/perf_event_paranoid");
}

CountingScope choose_counting_scope(const ProbeContext& context) {
  if (!context.fs.live()) throw Unavailable("counters need a running kernel; this is a copy of another host's files");
  CountingScope scope;
  if (take_cgroup(context, scope) || take_cpus(context, scope)) return scope;
  take_tasks(context, scope);
  return scope;
}

std::size_t files_for_counters() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  const auto used = error ? 256 : static_cast<std::size_t>(std::distance(begin(open), end(open)));
  const std::size_t taken = used + kFilesBesidePerf;
  return limit.rlim_cur > taken ? limit.rlim_cur - taken : 0;
}

}  // namespace reveal
