// The requests of the worker of a Slurm job's sampler to the call server (call_server.h), and the answers.
#pragma once

#include <linux/capability.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/stack/stack_functions.h"

namespace reveal {

/// The capabilities needed to answer. Kernels before 6.6 require all of root's.
inline constexpr unsigned kCallCapabilities[] = {CAP_PERFMON, CAP_BPF};

/// Counts of all processes: functions of the table times processes that are counted.
inline constexpr std::size_t kMostCallPlaces = 2048;

/// The delay of a call; `recording_ns`: more for a collective; `bias_ns`: the part of it in a measured duration.
struct CallCosts {
  double entry_ns = 0, timed_ns = 0, clock_ns = 0, recording_ns = 0, bias_ns = 0;
};

/// A place in a file, and the counts to which a call there is added.
struct CallPoint {
  std::uint64_t offset = 0;   // in the file
  std::uint64_t index = 0;    // number of the process times the functions, plus the function's number
  std::uint64_t counter = 0;  // offset in the file of a mark's counter; 0: there is none
  CallPlace place = CallPlace::function;
};

struct AskedPoint {
  CallPoint point;
  std::uint32_t timed = 0;
  std::uint32_t unused = 0;
};

enum class CallRequest : std::uint32_t {
  open = 1,  // `count` places, once: answered with the maps of counts and steps
  attach,    // `count` of `points` in the file that comes along, in process `pid`: answered with their links
  detach,    // `count` of `links`
  reset,     // `count` places from `index` on
  pending,   // answered with a PendingCalls
  forget,    // calls of the place `index` that are under way
  prepare,   // `count`: 1 if functions will be timed, else 0; answered with a link: see CallCounters::prepare()
};

struct CallQuestion {
  static constexpr std::size_t kMostPoints = 64;
  /// So many are detached together, by as many threads: the kernel waits for all of them at the same time.
  static constexpr std::size_t kMostLinks = 4;
  CallRequest what{};
  std::int32_t pid = 0;
  std::uint64_t count = 0;
  std::uint64_t index = 0;
  std::array<std::uint64_t, kMostLinks> links{};
  std::array<AskedPoint, kMostPoints> points{};
};

struct CallAnswer {
  std::int32_t error = 0;   // all of it is refused
  std::uint32_t multi = 0;  // the way
  std::uint64_t link = 0;   // the first point's; those of the others follow
  std::int64_t cpu_ns = 0;  // processor time that the server has used so far
  CallCosts costs;
  std::array<std::int32_t, CallQuestion::kMostPoints> errors{};    // for each point; 0: it is attached
  std::array<std::int64_t, CallQuestion::kMostPoints> since_ns{};  // CLOCK_MONOTONIC: since when it is
  std::array<char, 256> why{};                                     // nothing could be opened; ends with a 0
};

/// When the oldest call under way began, by index; 0: there is none.
struct PendingCalls {
  std::array<std::int64_t, kMostCallPlaces> begun_ns{};
};

}  // namespace reveal
