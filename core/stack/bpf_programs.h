// The two programs that the kernel runs where a function of the job's begins and returns, as instructions: there is no
// compiler for them, no library and no file to install. They count; all else is done outside.
// https://docs.kernel.org/bpf/standardization/instruction-set.html
#pragma once

#include <linux/bpf.h>

#include <compare>
#include <cstdint>
#include <vector>

#include "core/stack/stack_functions.h"

namespace reveal {

/// A status that is an error, and the number of calls that returned it.
struct ErrorCode {
  std::uint64_t status = 0;  // 0: a free place
  std::uint64_t calls = 0;
};

/// The sums for one function of one process: a value of the array map, which is shared with the kernel.
struct CallCounts {
  static constexpr std::size_t kCodes = 4;
  static constexpr std::size_t kBuckets = 32;
  static constexpr unsigned kFirstBucketBits = 10;
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
  std::uint64_t unsized = 0;   // calls without a size, by the rule
  std::uint64_t returned = 0;  // calls that were timed
  std::uint64_t time_ns = 0;   // time of these calls
  std::uint64_t longest_ns = 0;
  std::uint64_t errors = 0;
  std::uint64_t last_error = 0;
  std::uint64_t untimed = 0;          // calls that did not fit into the table of pending ones
  ErrorCode codes[kCodes]{};          // the first ones; others are in `errors` only
  std::uint64_t buckets[kBuckets]{};  // timed calls by duration, see bits_of()

  /// The calls of a bucket took less than 2 to this power, in ns, and no less than half of that: those of the first one
  /// took less than 1,024 ns, and the last one also has all longer ones.
  [[nodiscard]] static constexpr unsigned bits_of(std::size_t bucket) noexcept {
    return kFirstBucketBits + static_cast<unsigned>(bucket);
  }
};

/// One training step as it begins, with the process's waiting time, moved bytes and garbage collections until then.
struct BegunStep {
  std::uint64_t begin_ns = 0;  // CLOCK_MONOTONIC; 0: not written yet by the thread that begins it, or already taken
  std::uint64_t waiting_ns = 0;
  std::uint64_t bytes = 0;
  std::uint64_t gc_ns = 0;
};

/// The collectives of one process on one communicator.
struct CommunicatorCalls {
  static constexpr std::size_t kNewest = 16;  // a power of two
  static constexpr unsigned kSizeShift = 8;   // in the lower bits: number of the function, from 1
  static constexpr std::uint64_t kUnknownSize = 0xff'ffff'ffff'ffff;
  std::uint64_t handle = 0;         // the lower half of its address, or of its number, in the process; 0: a free place
  std::uint64_t members = 0;        // the own rank, and in the upper half the number of ranks; 0: not known
  std::uint64_t id = 0;             // a hash of the id that its ranks share; 0: not known
  std::uint64_t calls = 0;          // with an id, all calls of it; else all since they are counted
  std::uint64_t begin_ns = 0;       // CLOCK_MONOTONIC: begin of the newest; without any, when it was made
  std::uint64_t newest[kNewest]{};  // functions and bytes, by number of the call modulo their count
  // A few calls after each of these moments are kept one by one. They are whole multiples of the period on the wall
  // clock, so that all processes keep the same calls, or neighbouring ones.
  static constexpr std::int32_t kSamplePeriodNs = 500'000'000;
  static constexpr std::int32_t kSampledAtOnce = 3;
  std::uint64_t next_sample_ns = 0;  // CLOCK_MONOTONIC; 0: not set, so that none is kept
  std::uint64_t samples_left = 0;
};

/// A collective that is kept by itself.
struct SampledCall {
  std::uint64_t begin_ns = 0;  // CLOCK_MONOTONIC; 0: not written yet, or already taken
  std::uint64_t handle = 0;    // handle of its communicator
  std::uint64_t number = 0;    // its number on that, from 0
  std::uint64_t index = 0;     // index of its CallCounts
};

/// A call that is rare and told by itself: a long garbage collection, or the begin or end of a communicator.
struct RareCall {
  std::uint64_t time_ns = 0;  // CLOCK_MONOTONIC: the end of a collection; 0: not written yet, or already taken
  std::uint64_t index = 0;    // index of its CallCounts
  std::uint64_t about = 0;    // duration of the collection, or members of the communicator (CommunicatorCalls)
  std::uint64_t id = 0;       // id of the communicator; 0: not known
};

/// The newest steps of one process, by number modulo their count, the time in which it had a collective under way, and
/// its communicators, of which a new one takes the first free place, some of their calls, and its rare calls: a value
/// of another array map that is shared.
struct StepRing {
  static constexpr std::size_t kSteps = 256;  // a power of two
  static constexpr std::size_t kCommunicators = 32;
  std::uint64_t count = 0;
  std::uint64_t collectives = 0;       // under way now, in threads beside each other
  std::uint64_t since_ns = 0;          // begin of the first of them
  std::uint64_t communication_ns = 0;  // until the last one of those before ended
  BegunStep steps[kSteps];
  CommunicatorCalls communicators[kCommunicators];
  std::uint64_t unrecorded = 0;                 // calls for whose communicator there was no place
  static constexpr std::size_t kSamples = 256;  // a power of two
  std::uint64_t sampled = 0;
  SampledCall samples[kSamples];
  static constexpr std::size_t kRareCalls = 64;  // a power of two
  static constexpr std::int32_t kLongCollectionNs = 1'000'000;
  std::uint64_t rare = 0;
  RareCall rare_calls[kRareCalls];
};

/// A call under way: a key of the hash map.
struct PendingCall {
  std::uint64_t pid_tgid = 0;  // the process in the upper half, the thread in the lower
  std::uint64_t index = 0;     // index of its CallCounts
};

/// Its value.
struct PendingBegin {
  std::uint64_t begin_ns = 0;  // CLOCK_MONOTONIC
  std::uint64_t depth = 1;     // calls between marks within each other, as imports are
  // A communicator that the call makes: the address at which it will be stored, and its ranks.
  std::uint64_t address = 0;
  std::uint64_t members = 0;
  std::uint64_t id = 0;
};

/// The differences between programs. The cookie of the place where they are attached is the index of the counts; those
/// of one process follow each other in the order of the table, and its ring has the number of the process.
struct CallShape {
  ByteRule rule = ByteRule::none;
  int argument = 0;  // from 1
  bool timed = false;
  std::int32_t benign = 0;
  bool clock = false;   // each call begins a step
  bool status = true;   // its result shows whether it failed
  bool marked = false;  // it is between two marks
  bool communicates = false;
  bool collects = false;  // it is a garbage collection
  int communicator = 0;
  std::int32_t offset = 0;  // place of the number of elements
  auto operator<=>(const CallShape&) const = default;
};
[[nodiscard]] CallShape shape_of(const StackFunction& function, bool timed) noexcept;
/// It is a collective: its communicator is one that is there, and stays.
[[nodiscard]] bool is_recorded(const CallShape& shape) noexcept;
/// Some of its calls are rare ones, which are told by themselves.
[[nodiscard]] bool tells_calls(const CallShape& shape) noexcept;

struct CallMaps {
  int counts = -1;
  int pending = -1;
  int steps = -1;
};

[[nodiscard]] std::vector<bpf_insn> entry_program(const CallShape& shape, const CallMaps& maps);
[[nodiscard]] std::vector<bpf_insn> return_program(const CallShape& shape, const CallMaps& maps);

}  // namespace reveal
