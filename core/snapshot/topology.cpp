#include <hwloc.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "core/snapshot/snapshot.h"
#include "hdf5schema/basics/child_answer.h"

namespace reveal {
namespace {

constexpr std::chrono::milliseconds kLimit{3000};
constexpr std::size_t kLargestExport = 16 << 20;

// hwloc's plug-ins for graphics open display connections and load GPU libraries: neither belongs in a profiler's start.
constexpr const char* kComponents = "-gl,-opencl,-cuda,-nvml,-rsmi,-levelzero";
// For a copied tree, only the components that read its files: the others read this machine's processor and buses.
constexpr const char* kComponentsOfTree = "linux,stop";

std::string exported_topology(const std::string& root) {
  ::setenv("HWLOC_COMPONENTS", root.empty() ? kComponents : kComponentsOfTree, 1);
  if (!root.empty()) ::setenv("HWLOC_THISSYSTEM", "0", 1);
  if (!root.empty()) ::setenv("HWLOC_FSROOT", root.c_str(), 1);
  hwloc_topology_t topology = nullptr;
  char* text = nullptr;
  int size = 0;
  bool done = hwloc_topology_init(&topology) == 0;
  done = done && hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) == 0;
  done = done && hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) == 0;
  done = done && hwloc_topology_load(topology) == 0;
  done = done && hwloc_topology_export_xmlbuffer(topology, &text, &size, 0) == 0 && size > 1;
  return done ? std::string(text, static_cast<std::size_t>(size) - 1) : std::string();
}

// In a child, because hwloc keeps megabytes, may load a library that hangs, and prints a banner about problems. It runs
// before any thread is started.
std::string discover(const std::string& root) {
  return query_child([&root] { return exported_topology(root); }, kLimit, kLargestExport).text;
}

// Without it hwloc takes the topology from somewhere else.
bool has_topology(KernelTree& fs) {
  for (const std::string& name : fs.list("/sys/devices/system/cpu")) {
    if (name.starts_with("cpu") && !fs.list("/sys/devices/system/cpu/" + name + "/topology").empty()) return true;
  }
  return false;
}

}  // namespace

std::string topology_xml(KernelTree& fs) {
  return fs.fact("@topology", [&fs] { return fs.live() || has_topology(fs) ? discover(fs.root()) : std::string(); });
}

}  // namespace reveal
