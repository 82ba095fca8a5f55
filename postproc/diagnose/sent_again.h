// TCP segments that a node sent again, and how many of them were lost: receivers report those that had arrived already
// as duplicates. https://www.rfc-editor.org/rfc/rfc3708
#pragma once

#include <vector>

#include "postproc/telemetry/telemetry.h"

namespace reveal {

/// Segments sent again, and those of them that had arrived already. Kernels without TCPDSACKRecvSegs count one for each
/// report of several: then too few seem to have arrived, and too many to be lost.
struct RetransmitCount {
  double segments = 0;
  double duplicates = 0;
  double overtaken = 0;             // part of `segments`: while packets overtook each other (overtaken_steps())
  double overtaken_duplicates = 0;  // part of `duplicates`, likewise

  RetransmitCount& operator+=(const RetransmitCount& more);
  /// Segments of which no report says that they had arrived.
  [[nodiscard]] double missing() const { return segments - duplicates; }
  /// The same less those that had arrived, too, although no report says so.
  [[nodiscard]] double lost() const;
  [[nodiscard]] bool mostly_overtaken() const { return overtaken > 0 && overtaken >= 0.5 * segments; }
};

/// Two thresholds of net.tcp_retrans_fault.
struct LossThresholds {
  double min_missing_share = 0;
  double min_missing = 0;
};
/// Whether segments were lost, more than a handful. Nearly all segments that were sent again because others overtook
/// them are reported as duplicates, however many they are; of those that were sent again because they were lost, none.
/// `traffic`: segments on the same way, or 0 where that is not known.
[[nodiscard]] bool were_lost(const RetransmitCount& again, double traffic, const LossThresholds& least);

/// Per step, whether packets of the node overtook each other on their way: it noticed another order in each of several
/// recoveries, and got many reports of duplicates for each. All false where that was not measured. The counters are
/// those of the node: one path on which packets overtake each other counts for all of its peers.
[[nodiscard]] std::vector<bool> overtaken_steps(const Telemetry& telemetry);

}  // namespace reveal
