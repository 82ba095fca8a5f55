// The settings that send the interrupts and packets of a node to one of its cpus.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/rule.h"

namespace reveal {

/// A mask as the kernel takes it: 0 to 3 -> "f", 0 and 32 -> "1,00000001".
[[nodiscard]] std::string mask_of_cpus(const std::vector<int>& cpus);

/// A device's interrupt vector and where it was served.
struct Vector {
  std::string number;    // "41"
  std::string name;      // "virtio3-input.0"
  std::string cpu;       // that took most of it
  double rate = 0;       // interrupts per second over the job, all cpus
  double cpu_share = 0;  // their share on that cpu
  bool managed = false;  // the kernel owns its affinity: writing it fails
};
/// Vectors with at least `min_rate` interrupts per second, by falling rate.
[[nodiscard]] std::vector<Vector> busy_vectors(const RuleContext& context, double min_rate);

/// A vector of a network card, from the node's configuration.
struct CardVector {
  std::string number;     // "41"
  std::string device;     // "0000:81:00.0 net eth2, infiniband mlx5_0"
  std::string numa_node;  // NUMA node of the device; "" if it has none
  std::vector<int> cpus;  // that serve it
};
/// Returns the vectors of network cards, without those that the kernel placed: they cannot be moved.
[[nodiscard]] std::vector<CardVector> card_vectors(const RuleContext& context);
/// Names of the interfaces in a device's description: "eth2".
[[nodiscard]] std::vector<std::string> interfaces_of(std::string_view device);

/// Cpus of a NUMA node, as a list; "" if it is not known.
[[nodiscard]] std::string cpus_of_numa_node(const RuleContext& context, std::string_view node);

/// Names of the interfaces with all packets steered to this cpu alone ("cpu0").
[[nodiscard]] std::vector<std::string> steered_to(const RuleContext& context, std::string_view cpu);

/// Cpus that have transmit queues of the interface for themselves (XPS). Empty where there are none, or it is not
/// known.
[[nodiscard]] std::vector<int> sending_cpus(const RuleContext& context, const std::string& interface);
/// Gives the queues to these cpus: their sent packets come back as interrupts of its vectors.
[[nodiscard]] std::string line_for_senders(const std::string& interface, const std::vector<int>& cpus,
                                           const std::vector<int>& now);

}  // namespace reveal
