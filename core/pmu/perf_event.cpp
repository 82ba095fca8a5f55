#include "core/pmu/perf_event.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace reveal {
namespace {

struct Reason {
  int error;
  std::string_view sentence;
};

// The errors of perf_event_open(2), explained for a user who runs a job.
constexpr Reason kReasons[] = {
    {ENOENT, "this kernel has no such counter (a virtual machine without a PMU, or no driver)"},
    {ENODEV, "the processor or its kernel driver does not have this event"},
    {EOPNOTSUPP, "the counter cannot be used in this way here"},
    {EINVAL, "the kernel refuses this event or this combination"},
    {EMFILE, "too many open files: RLIMIT_NOFILE does not allow a counter for each cpu"},
    {ENFILE, "the node has too many open files"},
    {EBUSY, "another program has exclusive use of the counter"},
    {ENOSPC, "all counters of the processor are taken"},
    {EPERM, "perf_event_open is denied here (a seccomp filter of a container, or kernel.perf_event_paranoid)"},
    {ENOSYS, "perf_event_open is not there (a seccomp filter, or a kernel without CONFIG_PERF_EVENTS)"},
    {ESRCH, "the process has ended"},
    {EPIPE, "the process that opens counters for the collector has ended"},
};

}  // namespace

PerfOpened open_perf_event(const PerfRequest& request) {
  perf_event_attr attr{};
  attr.size = sizeof attr;
  attr.type = request.event.type;
  attr.config = request.event.config;
  attr.config1 = request.event.config1;
  attr.config2 = request.event.config2;
  attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  if (!request.target.with_children) attr.read_format |= PERF_FORMAT_GROUP;
  attr.disabled = request.group_fd < 0 ? 1 : 0;
  attr.inherit = request.target.with_children ? 1 : 0;
  attr.exclude_kernel = request.user_only ? 1 : 0;
  attr.exclude_hv = request.user_only ? 1 : 0;
  unsigned long flags = PERF_FLAG_FD_CLOEXEC;
  pid_t whose = request.target.task > 0 ? request.target.task : -1;
  if (request.target.cgroup_fd >= 0) {
    whose = request.target.cgroup_fd;
    flags |= PERF_FLAG_PID_CGROUP;
  }
  const long fd = ::syscall(SYS_perf_event_open, &attr, whose, request.target.cpu, request.group_fd, flags);
  if (fd < 0) return {Descriptor(), errno};
  return {Descriptor(static_cast<int>(fd)), 0};
}

void start_group(int first_fd) noexcept {
  ::ioctl(first_fd, PERF_EVENT_IOC_ENABLE, 0);
}

std::string why_not_counted(int error, const std::string& paranoid) {
  if (error == EACCES) {
    return "the kernel does not allow this user to count (kernel.perf_event_paranoid = " +
           (paranoid.empty() ? "unknown" : paranoid) + ')';
  }
  for (const Reason& reason : kReasons) {
    if (reason.error == error) return std::string(reason.sentence);
  }
  return std::strerror(error);
}

}  // namespace reveal
