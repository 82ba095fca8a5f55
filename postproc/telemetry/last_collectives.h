// The newest collectives of processes on each of their communicators, from the events of times without another one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hdf5schema/trace.h"

namespace reveal {

/// A call and its bytes.
struct SizedCall {
  std::string function;
  std::int64_t bytes = -1;  // -1: not known
  bool operator==(const SizedCall&) const = default;
};

/// One communicator of a process, after which no other collective began for a while.
struct LastCollectives {
  std::int64_t order = 0;            // among the communicators of the process
  std::int64_t ranks = 0, rank = 0;  // their number and the own one; 0 ranks: not known
  std::int64_t id = 0;               // equal on its ranks, whose calls are all counted then; 0: not known
  std::int64_t calls = 0;
  std::int64_t begin_ns = 0;      // begin of the newest call, on the axis of the events; without any, when it was made
  std::vector<SizedCall> newest;  // that one first; not all of them
  bool operator==(const LastCollectives&) const = default;
};

/// An event of a process with one of them.
struct StandingProcess {
  std::string process;  // "rank0"
  std::int64_t time_ns = 0;
  LastCollectives last;
};

/// In the order of the events; if there are very many, the last ones. Other and damaged events are skipped.
[[nodiscard]] std::vector<StandingProcess> last_collectives(std::span<const Event> events);

}  // namespace reveal
