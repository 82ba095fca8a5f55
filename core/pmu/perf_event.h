// perf_event_open: one counter of the kernel, and one sentence about why there is none. Only an open that succeeds
// means that an event is there: neither libpfm nor sysfs proves it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "hdf5schema/basics/descriptor.h"

namespace reveal {

/// The counted event: `type` and the configs of perf_event_attr.
struct PerfEvent {
  std::uint32_t type = 0;
  std::uint64_t config = 0;
  std::uint64_t config1 = 0;
  std::uint64_t config2 = 0;
  bool operator==(const PerfEvent&) const = default;
};

/// The counted work: exactly one of a cpu (all processes), a cpu of one cgroup, or a task.
struct PerfTarget {
  int cpu = -1;
  int cgroup_fd = -1;
  pid_t task = 0;
  bool with_children = false;  // also children that the task begins from now on
};

struct PerfRequest {
  PerfEvent event;
  PerfTarget target;
  int group_fd = -1;       // first event of its group; -1: this one is the first, and does not count yet
  bool user_only = false;  // without the kernel's work for it
};

struct PerfOpened {
  Descriptor fd;
  int error = 0;
};

/// Opens it here or through the broker.
using OpenPerf = std::function<PerfOpened(const PerfRequest&)>;

[[nodiscard]] PerfOpened open_perf_event(const PerfRequest& request);

/// Lets a group count, once all its events are in: on a cpu, Linux 6.18 never begins to count one that joins later.
void start_group(int first_fd) noexcept;

/// The length of a read of a group of `events` events: their number, the time enabled, the time running, the values.
/// The kernel reads no groups of a task with inherited counters: such a group is read one event at a time.
/// https://man7.org/linux/man-pages/man2/perf_event_open.2.html
[[nodiscard]] constexpr std::size_t group_words(std::size_t events) {
  return 3 + events;
}

/// Why an open failed, for the reader of a report. `paranoid`: the text of kernel.perf_event_paranoid, "" if unknown.
[[nodiscard]] std::string why_not_counted(int error, const std::string& paranoid);

}  // namespace reveal
