// A row of the table of training steps.
#pragma once

#include <cstdint>
#include <string>

#include "hdf5schema/vocabulary.h"

namespace reveal {

/// One training step of one rank, from the begin of its backward pass to that of the next one. Unknown numbers are
/// kMissing.
struct TrainingStep {
  std::string rank;           // the instance of its process: "rank0"
  std::int64_t number = 0;    // from 1, of those that were seen; the same number of two ranks need not be the same step
  std::int64_t begin_ns = 0;  // monotonic axis
  std::int64_t duration_ns = kMissing;
  std::int64_t waiting_ns = kMissing;  // in calls that wait for other ranks or the GPU, of all threads
  std::int64_t bytes = kMissing;       // that collective calls had to move
  std::int64_t gc_ns = kMissing;       // in Python's garbage collector
  bool operator==(const TrainingStep&) const = default;
};

}  // namespace reveal
