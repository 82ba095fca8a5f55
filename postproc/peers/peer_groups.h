// Groups of nodes of a job that do the same kind of work: found from their activity, so that a driver is not compared
// with workers.
#pragma once

#include <cstddef>
#include <vector>

#include "postproc/peers/node_profile.h"
#include "postproc/peers/quotient_columns.h"

namespace reveal {

/// Channels of all nodes as one table; a channel that a node did not measure is NaN, one that was 0 is 0.
struct ProfileTable {
  struct Column {
    SharedText name;
    SharedText unit;
    Subsystem subsystem = Subsystem::cpu;
    Kind kind = Kind::gauge;
    bool carried_over = false;
    double floor = 1;
  };
  std::vector<Column> columns;
  std::size_t nodes = 0;
  std::vector<float> activity;                  // [node][column]: log(1 + mean/floor)
  std::vector<const ProfileChannel*> channels;  // [node][column]; null: not measured, or 0
  std::vector<QuotientColumn> quotients;        // the channels of the last columns

  [[nodiscard]] std::size_t own_columns() const { return columns.size() - quotients.size(); }
  [[nodiscard]] const float* row(std::size_t node) const { return activity.data() + node * columns.size(); }
};

[[nodiscard]] ProfileTable tabulate(const std::vector<const NodeProfile*>& nodes);

/// log(1 + value/floor): ratios where there is something, differences near nothing.
[[nodiscard]] double activity_of(double value, double floor);

/// Groups of these nodes of the table, the largest first; linear in their number.
[[nodiscard]] std::vector<std::vector<std::size_t>> find_peer_groups(const ProfileTable& table,
                                                                     const std::vector<std::size_t>& nodes);

}  // namespace reveal
