// Counts calls of other processes' functions in the kernel: BPF programs behind breakpoints (uprobes), which add to
// memory that is shared with us. Nothing of it outlives the descriptors of the process that opened it. Under Slurm a
// broker with the privilege would do what is here, and hand the descriptors on: its requests are these functions.
#pragma once

#include <sys/mman.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/stack/bpf_programs.h"
#include "hdf5schema/basics/descriptor.h"

namespace reveal {

class CallCounters {
 public:
  /// How programs are attached: to many places by one link (Linux 6.6), or each by a perf event of its own (5.15).
  enum class Way : std::uint8_t { multi, single };
  /// Finds the first way, from `cheapest` on, in which this kernel counts what it should, on a function of our own, and
  /// measures what a hit costs. Throws Unavailable.
  /// `places`: a multiple of the number of functions.
  explicit CallCounters(std::size_t places, Way cheapest = Way::multi);
  ~CallCounters();
  CallCounters(const CallCounters&) = delete;
  CallCounters& operator=(const CallCounters&) = delete;

  struct Point {
    std::uint64_t offset = 0;  // in the file
    std::size_t index = 0;     // of the counts
  };
  struct Attached {
    std::vector<Descriptor> links;  // closed, they take the probes out of the process again: slow
    int error = 0;
  };
  /// All points, or none. Only calls of this process are counted, and no other process is patched.
  [[nodiscard]] Attached attach(int file, pid_t pid, const CallShape& shape, std::span<const Point> points);

  [[nodiscard]] std::uint64_t calls(std::size_t index) const noexcept;
  [[nodiscard]] std::uint64_t unsized(std::size_t index) const noexcept;
  /// `longest_ns` is since the last take().
  [[nodiscard]] CallCounts take(std::size_t index) noexcept;
  /// Clears the counts for another process, once nothing of the last one is attached any more.
  void reset(std::size_t first, std::size_t count);
  /// The steps that a process began, from number `next` on, counted from 0 as they came; those that are missing between
  /// them are lost. `process` counts from 0 in the order of the places.
  struct NumberedStep {
    std::uint64_t number = 0;
    BegunStep step;
  };
  [[nodiscard]] std::vector<NumberedStep> take_steps(std::size_t process, std::uint64_t next);
  /// When the oldest call under way began, by index.
  [[nodiscard]] std::map<std::size_t, std::int64_t> pending() const;

  [[nodiscard]] std::string_view way() const noexcept;
  /// The delay of one call in nanoseconds; bias_ns() is the part of it that the measured duration contains.
  [[nodiscard]] double cost_ns(bool timed) const noexcept { return timed ? timed_cost_ns_ : entry_cost_ns_; }
  [[nodiscard]] double cost_ns(const CallShape& shape) const noexcept {
    return shape.clock ? clock_cost_ns_ : cost_ns(shape.timed);
  }
  [[nodiscard]] double bias_ns() const noexcept { return bias_ns_; }

 private:
  struct Programs {
    Descriptor entry, exit;
  };
  const Programs& programs_of(const CallShape& shape);
  [[nodiscard]] int attach_all(int file, pid_t pid, int program, bool at_return, std::span<const Point> points,
                               std::vector<Descriptor>& links) const;
  [[nodiscard]] std::vector<std::pair<PendingCall, std::int64_t>> all_pending() const;
  /// "", or why this way does not count.
  [[nodiscard]] std::string try_way(Way way);
  [[nodiscard]] std::string calibrate(const CallShape& shape, double& cost_ns);

  /// A value of an array map for each place, in memory that is shared with the kernel.
  template <typename Value>
  class SharedArray {
   public:
    /// Throws Unavailable.
    explicit SharedArray(std::size_t places);
    ~SharedArray() { ::munmap(values_.data(), bytes_); }
    SharedArray(const SharedArray&) = delete;
    SharedArray& operator=(const SharedArray&) = delete;
    [[nodiscard]] int map() const noexcept { return map_.get(); }
    [[nodiscard]] std::span<Value> values() const noexcept { return values_; }

   private:
    Descriptor map_;
    std::span<Value> values_;
    std::size_t bytes_ = 0;
  };

  SharedArray<CallCounts> counts_;
  SharedArray<StepRing> steps_;
  Descriptor pending_;
  Way way_ = Way::multi;
  std::uint32_t perf_type_ = 0;
  std::map<CallShape, Programs> programs_;
  double entry_cost_ns_ = 0, timed_cost_ns_ = 0, clock_cost_ns_ = 0, bias_ns_ = 0;
};

}  // namespace reveal
