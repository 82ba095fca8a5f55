// One channel, one node against all others of its group: how far off it is, and whether chance alone takes a node so
// far. Chance has two sources. Equal nodes differ a little: the leave-one-out variance between the others, moderated by
// the common distribution of the channels (moderated_t.h). And a node's mean would be another if the job ran again: its
// standard error from batch means (Schmeiser, Oper. Res. 30(3):556, 1982), so that blocks that hang together in time
// are not counted as many witnesses.
#pragma once

#include <span>
#include <vector>

#include "postproc/peers/peer_groups.h"
#include "postproc/peers/peer_overlap.h"

namespace reveal {

/// Blocks that a standard error needs.
inline constexpr std::size_t kLeastBlocks = 5;

/// The data by which the nodes of one group are compared. Everything outlives it.
struct GroupData {
  const std::vector<const NodeProfile*>& nodes;
  const ProfileTable& table;
  const PeerOverlap& overlap;
};

struct PeerTest {
  std::size_t member = 0;  // index into GroupData::overlap.members
  std::size_t column = 0;
  double effect = 0;    // activity_of() this node less the median of the others
  double variance = 0;  // variance of activity between the others
  double se2 = 0;       // squared standard error of this node's own activity
  double observed = 0;  // in the unit of the column
  double expected = 0;
  bool constant = false;  // a setting: no node's value ever changed
  std::size_t nodes = 0;  // that were measured
  double t = 0;           // these two: see test_peers()
  double p = 1;
};

/// Tests of one column after the other; keeps its buffers.
class ColumnTest {
 public:
  explicit ColumnTest(const GroupData& group) : group_(group) {}

  /// Appends a test per node, and the variance between the nodes where there is any; false when it cannot be compared.
  bool run(std::size_t column, std::vector<PeerTest>& tests, std::vector<double>& variances);

  /// Part of the common blocks in which the member shows more of this column than all others.
  [[nodiscard]] double share_at_top(std::size_t column, std::size_t member);

 private:
  bool collect(std::size_t column);
  void standard_errors(std::size_t column);

  GroupData group_;
  std::vector<std::size_t> measured_;        // indices into overlap.members; all below are in its order
  std::vector<std::vector<double>> blocks_;  // in the unit of the column
  std::vector<double> mean_, level_, se2_;
  bool constant_ = false;
};

/// False where p will be above 5 %, whatever the variances between the nodes in other columns are: nearly all tests.
[[nodiscard]] bool may_be_discovery(const PeerTest& test);

/// Fills t and p from `variances` between the nodes of all columns.
void test_peers(std::vector<PeerTest>& tests, std::span<const double> variances, std::size_t members);

/// Percent of the expected value, or of the floor if that is larger.
[[nodiscard]] double percent_of(double observed, double expected, double floor);

}  // namespace reveal
