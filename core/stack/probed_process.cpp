#include "core/stack/probed_process.h"

#include <sys/utsname.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "core/job/process_stat.h"
#include "hdf5schema/basics/file_text.h"

namespace reveal {

/// A timed function returns by a system call of the kernel's own (Linux 6.11), which it passed through a process's
/// seccomp filter at first: a container's filter refuses it, and the process crashes. Let through since 6.14. A filter
/// may come at any time, so on the kernels between nothing is timed.
bool kernel_times_safely() {
  utsname system{};
  unsigned major = 0;
  unsigned minor = 0;
  if (::uname(&system) != 0 || std::sscanf(system.release, "%u.%u", &major, &minor) != 2) return false;
  return major != 6 || minor < 11 || minor > 13;
}

std::optional<std::int64_t> start_of(pid_t pid) {
  const std::string text = file_text("/proc/" + std::to_string(pid) + "/stat");
  const auto stat = parse_process_stat(text);
  return stat ? std::optional(stat->start_ticks) : std::nullopt;
}

/// A process is not timed if it has a filter, or if the processor checks its return addresses (a shadow stack).
bool may_be_timed(pid_t pid) {
  static const bool safely = kernel_times_safely();
  const std::string text = file_text("/proc/" + std::to_string(pid) + "/status");
  return safely && field_of(text, "Seccomp") == "0" &&
         field_of(text, "x86_Thread_features").find("shstk") == std::string_view::npos;
}

}  // namespace reveal
