// The places of devices in a node: cpus, GPUs, network cards, their interrupts and the job's processes by NUMA node, as
// far as the node's configuration and the trace contain them.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hdf5schema/trace.h"

namespace reveal {

struct NumaLayout;
struct Telemetry;

/// One NUMA node, or the devices with an unknown place. In words that can be printed.
struct LocalityPlace {
  std::optional<int> numa;  // nothing: the firmware does not report it
  std::string cpus;         // "0-15"
  std::string job_cpus;     // those that the job may use; "" if that is not known, or there are none
  std::vector<std::string> gpus, networks, interrupts, processes;
  bool operator==(const LocalityPlace&) const = default;
};

struct LocalityMap {
  std::string node;
  std::vector<LocalityPlace> places;  // NUMA nodes in rising order, then devices without a node; empty: see `note`
  std::string note;                   // why places cannot be separated
  bool operator==(const LocalityMap&) const = default;
};

/// Where one process of the job was.
struct ProcessPlace {
  std::string name;               // "rank0"
  std::map<int, double> shares;   // shares of its time, by NUMA node
  std::map<int, double> bytes;    // bytes of its own memory, by NUMA node
  std::vector<std::string> gpus;  // on which it had memory
};

[[nodiscard]] std::vector<ProcessPlace> process_places(const Telemetry& telemetry, const NumaLayout& layout);

/// Facts missing in `begin` are taken from `end`: a job that began late, a GPU that answered late.
[[nodiscard]] LocalityMap locality_map(const Snapshot& begin, const Snapshot& end,
                                       std::span<const ProcessPlace> processes = {});

}  // namespace reveal
