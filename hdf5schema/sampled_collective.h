// A row of the table of collectives that were kept one by one.
#pragma once

#include <cstdint>
#include <string>

namespace reveal {

/// When one rank entered one collective: a few in each second, of each communicator.
struct SampledCollective {
  std::string rank;               // the instance of its process: "rank0"
  std::string function;           // "MPI_Allreduce"
  std::int64_t communicator = 0;  // its place among those of the process, from 0
  std::int64_t ranks = 0;         // its number of ranks; 0: not known
  std::int64_t id = 0;            // equal on its ranks, which all count from its first call then; 0: not known
  std::int64_t number = 0;        // from 1, by communicator: only calls that were seen have one
  std::int64_t begin_ns = 0;      // monotonic axis
  std::int64_t last = 0;          // 1: the process had ended, so that it is its last call on the communicator
  bool operator==(const SampledCollective&) const = default;
};

}  // namespace reveal
