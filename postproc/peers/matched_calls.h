// The collectives of ranks that stand still, matched by communicator: finds the rank that has not made the call that
// the others wait for, and ranks that made it with another size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "postproc/peers/call_history.h"

namespace reveal {

/// A collective of a communicator, as some of its ranks made it.
struct CommunicatorCall {
  std::string function;
  std::int64_t bytes = -1;  // -1: not known
  std::int64_t order = 0;   // the communicator's among those of the process
  std::int64_t ranks = 0;   // their number; 0: not known
  std::int64_t number = 0;  // the call's on the communicator, from 1; 0: not known
};

/// " (4096 bytes, call 812 on communicator 1 with 4 ranks)"
[[nodiscard]] std::string details_of(const CommunicatorCall& call);

struct MatchedCalls {
  std::vector<std::size_t> present, absent;  // indices of ranks
  std::optional<CommunicatorCall> call;      // by those present; nothing where it was too long ago
  std::optional<CommunicatorCall> others;    // by those absent, if they made another one instead
  std::vector<std::int64_t> calls;           // made on the communicator, by rank, if these differ; -1: not known
};

/// By communicators whose ranks share an id and are all known, and whose calls were counted from the first one on:
/// either some ranks have made fewer calls than the others, or different ones. Nothing where neither holds, where ranks
/// wait in a circle, or where a rank that made fewer may wait for one that is not known.
[[nodiscard]] std::optional<MatchedCalls> match_numbered_calls(std::span<const QuietTime* const> ranks);

/// Ranks that all made the same number of calls, and are in the same function with different sizes, on a communicator
/// of all ranks: the parts of a split one may have sizes of their own. Threads of a rank may make calls in another
/// order: a size that other ranks had in one of their newest calls proves nothing.
[[nodiscard]] std::optional<MatchedCalls> match_sizes(std::span<const QuietTime* const> ranks);

/// The call that all of these ranks made last; nothing where they differ, or where it is not known.
[[nodiscard]] std::optional<CommunicatorCall> common_call(std::span<const QuietTime* const> ranks,
                                                          std::span<const std::size_t> some);

/// These ranks are all members of the communicator on which they made that call.
[[nodiscard]] bool are_all_members(std::span<const QuietTime* const> ranks, std::span<const std::size_t> some);

}  // namespace reveal
