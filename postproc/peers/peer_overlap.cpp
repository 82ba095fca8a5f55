#include "postproc/peers/peer_overlap.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "hdf5schema/basics/not_measured.h"
#include "postproc/numerics/median.h"

namespace reveal {
namespace {

constexpr double kLeastLife = 0.5;  // share of the usual life in its group

}  // namespace

PeerOverlap overlap_of(const std::vector<const NodeProfile*>& nodes, const std::vector<std::size_t>& group) {
  std::vector<double> lives;
  lives.reserve(group.size());
  for (const std::size_t node : group) lives.push_back(nodes[node]->seconds());
  const double usual = median_of(std::move(lives));
  PeerOverlap overlap;
  std::int64_t begin = std::numeric_limits<std::int64_t>::min();
  std::int64_t end = std::numeric_limits<std::int64_t>::max();
  for (const std::size_t node : group) {
    const NodeProfile& profile = *nodes[node];
    if (profile.seconds() < kLeastLife * usual || profile.block_ns <= 0) {
      overlap.left_out.push_back(node);
      continue;
    }
    overlap.members.push_back(node);
    overlap.block_ns = std::max(overlap.block_ns, profile.block_ns);
    begin = std::max(begin, profile.begin_utc_ns);
    end = std::min(end, profile.end_utc_ns);
  }
  if (overlap.block_ns == 0 || end <= begin) return overlap;  // no member, or no time in common
  overlap.first = begin / overlap.block_ns;
  overlap.last = (end - 1) / overlap.block_ns;
  overlap.seconds = static_cast<double>(end - begin) * 1e-9;
  return overlap;
}

void fold(const NodeProfile& profile, const ProfileChannel* channel, const PeerOverlap& overlap,
          std::vector<double>& out) {
  out.assign(overlap.blocks(), kNaN);
  if (channel == nullptr || channel->blocks.empty()) {
    // A value that never changed is the same in every block in which the node lived for at least half.
    const double value = channel == nullptr ? 0 : channel->mean;
    for (std::size_t b = 0; b < out.size(); ++b) {
      const std::int64_t begin = (overlap.first + static_cast<std::int64_t>(b)) * overlap.block_ns;
      const std::int64_t lived =
          std::min(begin + overlap.block_ns, profile.end_utc_ns) - std::max(begin, profile.begin_utc_ns);
      if (2 * lived >= overlap.block_ns) out[b] = value;
    }
    return;
  }
  const std::int64_t ratio = std::max<std::int64_t>(1, overlap.block_ns / profile.block_ns);
  for (std::size_t b = 0; b < out.size(); ++b) {
    const std::int64_t fine = (overlap.first + static_cast<std::int64_t>(b)) * ratio - profile.first_block;
    double sum = 0;
    std::int64_t present = 0;
    for (std::int64_t i = std::max<std::int64_t>(fine, 0);
         i < std::min(fine + ratio, static_cast<std::int64_t>(channel->blocks.size())); ++i) {
      const double value = channel->blocks[static_cast<std::size_t>(i)];
      if (!std::isfinite(value)) continue;
      sum += value;
      ++present;
    }
    if (2 * present >= ratio && present > 0) out[b] = sum / static_cast<double>(present);
  }
}

}  // namespace reveal
