// The device of each interrupt, the device's place, and the cpus that may serve it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/kernel_text/kernel_tree.h"

namespace reveal {

struct InterruptFact {
  int number = 0;
  std::int64_t count = 0;  // so far, over all cpus
  std::string name;        // "mlx5_comp3@pci:0000:81:00.0"
  std::string affinity;    // cpus that may serve it
  std::string effective;   // cpus that do
  std::string device;      // "0000:81:00.0 net eth2, infiniband mlx5_0"
  std::string numa_node;   // NUMA node of the device; "" if it has none
  std::string managed;  // "yes": the kernel placed it, and it cannot be moved, not even by irqbalance; "" if not known
};

/// Interrupts that fired at least `least` times, the busiest first, at most `most`.
[[nodiscard]] std::vector<InterruptFact> interrupt_facts(KernelTree& fs, std::int64_t least, std::size_t most);

/// "0000:81:00.0 net eth2, infiniband mlx5_0": its address, and the system's names of its devices.
[[nodiscard]] std::string pci_device_name(KernelTree& fs, const std::string& address);

}  // namespace reveal
