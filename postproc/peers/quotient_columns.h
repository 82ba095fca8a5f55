// Quotients of two metrics of a node, compared like its own metrics: the time of one disk read does not depend on the
// number of reads, so a disk that is slow all the time differs from its peers' even where the amounts of work differ.
#pragma once

#include <memory>
#include <vector>

#include "postproc/peers/node_pair.h"

namespace reveal {

struct QuotientColumn {
  const PairMetric* metric = nullptr;
  /// By node. Null where it was not measured, or where the node does much more or less than the others: requests wait
  /// for each other.
  std::vector<std::unique_ptr<ProfileChannel>> channels;
};

/// One for each quotient in pair_metrics() that some node has.
[[nodiscard]] std::vector<QuotientColumn> quotient_columns(const std::vector<const NodeProfile*>& nodes);

}  // namespace reveal
