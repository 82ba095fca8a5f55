// The layers of a system, from its hardware to the steps of a training, each looked at on its own: how a layer usually
// is does not drown in the channels of the others.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// The subsystem itself, and the purpose of a process's calls into the software stack.
enum class Layer : std::uint8_t { cpu, gpu, memory, network, storage, process, self, cuda, collective, python, steps };
[[nodiscard]] Layer layer_of(const Channel& channel);

/// The windows of one layer in a few numbers.
struct LayerWindows {
  Layer layer = Layer::cpu;
  std::vector<Eigen::Index> calm;  // windows that others at another time resemble; a hundred of them, evenly spread
  std::size_t all_calm = 0;        // how many there are
  /// [window, number]: principal components of the calm windows in units of their deviations, and the logarithm of the
  /// window's rest beside the components.
  Eigen::MatrixXd rows;
};

/// Computed from the inner products of the layer's windows; without numbers if no window differs from another.
[[nodiscard]] LayerWindows layer_windows(Layer layer, const Eigen::MatrixXd& gram);

}  // namespace reveal
