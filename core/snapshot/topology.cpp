#include <fcntl.h>
#include <hwloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "core/snapshot/snapshot.h"

namespace reveal {
namespace {

constexpr std::chrono::milliseconds kLimit{3000};
constexpr std::size_t kLargest = 16 << 20;

// hwloc's plug-ins for graphics open display connections and load GPU libraries: neither belongs in a profiler's start.
constexpr const char* kComponents = "-gl,-opencl,-cuda,-nvml,-rsmi,-levelzero";

bool write_all(int fd, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t done = ::write(fd, data, size);
    if (done <= 0) return false;
    data += done;
    size -= static_cast<std::size_t>(done);
  }
  return true;
}

[[noreturn]] void export_topology(int fd, const std::string& root) {
  ::setenv("HWLOC_COMPONENTS", kComponents, 1);
  if (!root.empty()) ::setenv("HWLOC_FSROOT", root.c_str(), 1);
  hwloc_topology_t topology = nullptr;
  char* text = nullptr;
  int size = 0;
  bool done = hwloc_topology_init(&topology) == 0;
  done = done && hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) == 0;
  done = done && hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) == 0;
  done = done && hwloc_topology_load(topology) == 0;
  done = done && hwloc_topology_export_xmlbuffer(topology, &text, &size, 0) == 0 && size > 1;
  done = done && write_all(fd, text, static_cast<std::size_t>(size) - 1);
  ::_exit(done ? 0 : 1);
}

// In a child, because hwloc keeps megabytes and may load what hangs. It runs before any thread is started.
std::string discover(const std::string& root) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return "";
  const pid_t child = ::fork();
  if (child == 0) export_topology(ends[1], root);
  ::close(ends[1]);
  std::string text;
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  bool complete = false;
  while (child > 0 && text.size() < kLargest) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd wait{ends[0], POLLIN, 0};
    if (left.count() <= 0 || ::poll(&wait, 1, static_cast<int>(left.count())) <= 0) break;
    char piece[16384];
    const ssize_t got = ::read(ends[0], piece, sizeof piece);
    if (got <= 0) {
      complete = got == 0;
      break;
    }
    text.append(piece, static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  if (child < 0) return "";
  if (!complete) ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  return complete && status == 0 ? text : "";
}

}  // namespace

std::string topology_xml(RootFs& fs) {
  return fs.fact("@topology", [&fs] { return discover(fs.root()); });
}

}  // namespace reveal
