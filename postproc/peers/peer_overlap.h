// The part of wall time in which the nodes of one group can be held against each other, in blocks of equal length.
// Nodes with different life spans have profiles with different blocks, which are all 2^k seconds and so fold into each
// other.
#pragma once

#include <cstdint>
#include <vector>

#include "postproc/peers/node_profile.h"

namespace reveal {

struct PeerOverlap {
  std::vector<std::size_t> members;   // that lived for at least half of the usual time in their group
  std::vector<std::size_t> left_out;  // the others
  std::int64_t block_ns = 0;          // the longest of the members'
  std::int64_t first = 0;
  std::int64_t last = -1;  // blocks, inclusive
  double seconds = 0;

  [[nodiscard]] std::size_t blocks() const { return last < first ? 0 : static_cast<std::size_t>(last - first + 1); }
};

/// `group`: indices into `nodes`, at least one.
[[nodiscard]] PeerOverlap overlap_of(const std::vector<const NodeProfile*>& nodes,
                                     const std::vector<std::size_t>& group);

/// Means of the channel over the common blocks; NaN where the node has less than half of one. `channel` is null if it
/// was 0 all the time.
void fold(const NodeProfile& profile, const ProfileChannel* channel, const PeerOverlap& overlap,
          std::vector<double>& out);

}  // namespace reveal
