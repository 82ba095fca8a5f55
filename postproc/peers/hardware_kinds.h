// Nodes of one model of machine, processor and GPU: a cluster grows over the years, and a job may get nodes of several
// kinds. Nodes of another kind are unlike by design, in speed and in what the firmware and the kernel set by
// themselves.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "postproc/peers/node_profile.h"

namespace reveal {

/// Fewer nodes have no peers: with two, either may be the odd one.
inline constexpr std::size_t kLeastOfKind = 3;

/// Whether the fact names the kind: the model of the machine, of its processor or of its GPUs.
[[nodiscard]] bool names_the_kind(std::string_view key) noexcept;

/// Whether a fact has its value by the kind of the node, so that it is compared within each kind.
[[nodiscard]] bool follows_the_kind(std::string_view key) noexcept;

/// The indices of the nodes by kind, the largest kind first. Nodes of a kind with fewer than kLeastOfKind are among
/// those of the largest kind. GPUs make a kind only if all nodes have some: a driver may have failed to load.
[[nodiscard]] std::vector<std::vector<std::size_t>> hardware_kinds(const std::vector<const NodeProfile*>& nodes);

}  // namespace reveal
