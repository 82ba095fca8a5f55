// What sends the interrupts and packets of a node to one of its cpus, as far as its configuration says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "postproc/diagnose/rule.h"

namespace reveal {

/// Cpus in a mask as the kernel writes it: "00000000,0000000f" -> 0 to 3. Empty for what is no mask.
[[nodiscard]] std::vector<int> cpus_of_mask(std::string_view mask);

/// The opposite: 0 to 3 -> "f", 0 and 32 -> "1,00000001".
[[nodiscard]] std::string mask_of_cpus(const std::vector<int>& cpus);

/// A device's interrupt vector and where it was served.
struct Vector {
  std::string number;    // "41"
  std::string name;      // "virtio3-input.0"
  std::string cpu;       // that took most of it
  double rate = 0;       // interrupts per second over the job, all cpus
  double cpu_share = 0;  // of them on that cpu
  bool managed = false;  // the kernel owns its affinity: writing it fails
};
/// Those with at least `min_rate` interrupts per second, by falling rate.
[[nodiscard]] std::vector<Vector> busy_vectors(const RuleContext& context, double min_rate);

/// Interfaces all of whose packets are steered to this cpu alone ("cpu0"), by name.
[[nodiscard]] std::vector<std::string> steered_to(const RuleContext& context, std::string_view cpu);

}  // namespace reveal
