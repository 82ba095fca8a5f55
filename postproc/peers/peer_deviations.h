// The tests that are reported: discoveries at a false-discovery rate of 5 % over all channels and nodes
// (Benjamini and Hochberg, 1995) that are also large, and whether they describe the node or its work.
#pragma once

#include <string>
#include <vector>

#include "postproc/peers/peer_statistic.h"
#include "postproc/peers/peers.h"

namespace reveal {

inline constexpr double kPeerDiscoveryRate = 0.05;

/// Returns the deviations by node, then by falling |t|. `tests` of all roles, with indices into `nodes` as their
/// members; of `all` tests, those with a p up to kPeerDiscoveryRate suffice.
[[nodiscard]] std::vector<PeerDeviation> deviations_of(const std::vector<PeerTest>& tests, std::size_t all,
                                                       const ProfileTable& table,
                                                       const std::vector<const NodeProfile*>& nodes,
                                                       double least_percent);

[[nodiscard]] std::vector<PeerCell> cells_of(const std::vector<PeerDeviation>& deviations);

/// Keeps the 200 strongest; returns how many were dropped.
std::size_t keep_strongest(std::vector<PeerDeviation>& deviations);

/// Returns both sides' values where two nodes differ: which of them is unusual is not known. "" when nowhere.
[[nodiscard]] std::string pair_sentence(const std::vector<PeerTest>& tests, const ProfileTable& table);

[[nodiscard]] Evidence evidence_of(const PeerDeviation& deviation, TimeSpan span);

/// A state of the node rather than an amount of work: different for no good reason.
[[nodiscard]] bool is_state(const PeerDeviation& deviation);

}  // namespace reveal
