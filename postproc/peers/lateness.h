// Collectives matched over the ranks of a job: how much later than the others each rank entered each call. A call is
// the same on all ranks by its number on the communicator.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "postproc/peers/node_ranks.h"

namespace reveal {

struct RankLateness {
  std::string_view node, rank;
  double clock_error = 0;    // s: by so much all of its lateness may be wrong
  std::vector<double> late;  // s, against the middle rank, by call; NaN where it is not known
  std::vector<double> gap;   // s since it entered the call before, likewise
};

/// The calls of one communicator that several ranks were seen to enter.
struct MatchedCollectives {
  std::string function;
  std::int64_t communicator = 0;  // its place among those of the processes, from 0
  std::vector<std::int64_t> numbers;
  std::vector<double> begins;  // when the middle rank entered the call, UTC
  std::vector<RankLateness> ranks;

  [[nodiscard]] std::size_t calls() const { return numbers.size(); }
};

/// How the job ended: if it ended well, the last calls of all ranks were the same one.
enum class JobOutcome : bool { not_known, well };

/// By communicators whose ranks share an id. Without one, ranks may have been seen from different calls on: then those
/// that made equally many calls are matched, and those of a job that ended well, by the last call.
[[nodiscard]] std::vector<MatchedCollectives> match_collectives(std::span<const NodeRanks> nodes, JobOutcome end);

}  // namespace reveal
