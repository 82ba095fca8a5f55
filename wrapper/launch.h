// The launch that this reveal-run belongs to. The ranks that one mpirun, srun or torchrun starts on one node must find
// each other, so that they share one collector; two launches must never meet.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "wrapper/settings.h"

namespace reveal {

struct Launch {
  std::string key;  // usable as a file name
  std::string node;
  std::optional<int> rank;           // among all ranks of the launch, if the launcher sets it
  std::optional<int> ranks_on_node;  // ranks that will come to this node, if the launcher sets it
  bool shared = false;               // other ranks may have the same key

  /// One line per launch, not one per rank.
  [[nodiscard]] bool prints() const noexcept { return rank.value_or(0) == 0; }
};

[[nodiscard]] std::string node_name(const RunSettings& settings, const Environment& environment);
[[nodiscard]] Launch identify_launch(const std::string& node, const Environment& environment);

}  // namespace reveal
