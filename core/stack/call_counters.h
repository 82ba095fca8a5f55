// Counts calls of other processes' functions in the kernel: BPF programs behind breakpoints (uprobes), which add to
// memory that is shared with us. Nothing of it outlives the descriptors of the process that opened it. A process
// without the privilege uses the call server (call_broker.h), and reads the same memory.
#pragma once

#include <sys/mman.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/stack/bpf_programs.h"
#include "core/stack/call_broker.h"
#include "hdf5schema/basics/descriptor.h"

namespace reveal {

/// Attached probes. Their end removes them from the process: behind each of them, the kernel waits for all cpus, some
/// ten milliseconds or, with perf events, a tenth of a second; for several at once if they end together.
class CallLinks {
 public:
  CallLinks() = default;
  CallLinks(CallLinks&&) noexcept = default;
  CallLinks& operator=(CallLinks&& other) noexcept {
    std::swap(files_, other.files_);
    std::swap(events_, other.events_);
    std::swap(numbers_, other.numbers_);
    std::swap(broker_, other.broker_);
    return *this;
  }
  CallLinks(const CallLinks&) = delete;
  CallLinks& operator=(const CallLinks&) = delete;
  ~CallLinks() { detach(); }

  void add(Descriptor file) { files_.push_back(std::move(file)); }
  /// A perf event, or the program behind it: the kernel lets them end one after the other.
  void add_event(Descriptor event) { events_.push_back(std::move(event)); }
  /// The broker's link with this number. All links of an object are of the same side.
  void add(CallBroker& broker, std::uint64_t number) {
    broker_ = &broker;
    numbers_.push_back(number);
  }
  void add(CallLinks&& more);
  [[nodiscard]] std::size_t size() const noexcept { return files_.size() + events_.size() + numbers_.size(); }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  void detach() noexcept;

 private:
  std::vector<Descriptor> files_, events_;
  std::vector<std::uint64_t> numbers_;
  CallBroker* broker_ = nullptr;
};

/// Detaches everything that this process has attached, also what another thread holds that hangs in the kernel. For a
/// process that ends next: its end waits for that thread. `closed`: called behind each of them, by any thread.
void close_call_links(void (*closed)() noexcept = nullptr) noexcept;

class CallCounters {
 public:
  /// How programs are attached: to many places by one link (Linux 6.6), or each by a perf event of its own (5.15).
  enum class Way : std::uint8_t { multi, single };
  /// Finds the first way, from `cheapest` on, in which this kernel counts correctly, on a function of our own, and
  /// measures the cost of a hit. Throws Unavailable.
  /// `places`: a multiple of the number of functions.
  explicit CallCounters(std::size_t places, Way cheapest = Way::multi);
  /// Through the broker, which has opened as many places.
  CallCounters(std::size_t places, std::unique_ptr<CallBroker> broker);
  ~CallCounters();
  CallCounters(const CallCounters&) = delete;
  CallCounters& operator=(const CallCounters&) = delete;

  using Point = CallPoint;
  struct Attached {
    CallLinks links;
    int error = 0;              // else the links are those that were made before it, and are to be detached
    std::int64_t since_ns = 0;  // CLOCK_MONOTONIC: all links are made
  };
  struct Function {
    CallShape shape;
    std::span<const Point> points;  // the ends of calls between marks come first
  };
  /// Does now what takes long at the first link: loads the programs for functions that are timed, or for those that are
  /// not, and attaches to a private function of our own, which nobody calls. The kernel waits some milliseconds for all
  /// cpus there, and not at links that follow at once. It makes a link as the writer of a lock that fork() reads by a
  /// fast way for each cpu: the first writer waits until no cpu uses that way any more, for a grace period of RCU. The
  /// way is open again once another one has passed since the last writer (rcu_sync_exit()), and until then no writer
  /// waits. The end of the link takes as long as that of others.
  /// https://github.com/torvalds/linux/blob/master/kernel/rcu/sync.c
  [[nodiscard]] Attached prepare(bool timed);
  /// An answer for each function: all of its points are attached, or there is an error. Only calls of this process are
  /// counted, and no other process is patched.
  [[nodiscard]] std::vector<Attached> attach(int file, pid_t pid, std::span<const Function> functions);
  [[nodiscard]] Attached attach(int file, pid_t pid, const CallShape& shape, std::span<const Point> points);

  [[nodiscard]] std::uint64_t calls(std::size_t index) const noexcept;
  [[nodiscard]] std::uint64_t unsized(std::size_t index) const noexcept;
  /// The calls by duration (CallCounts::buckets).
  using Buckets = std::array<std::uint64_t, CallCounts::kBuckets>;
  [[nodiscard]] Buckets buckets(std::size_t index) const noexcept;
  /// `longest_ns` is since the last take().
  [[nodiscard]] CallCounts take(std::size_t index) noexcept;
  /// Clears the counts for another process, once nothing of the last one is attached any more.
  void reset(std::size_t first, std::size_t count);
  /// Forgets the calls of a function that are under way: it was detached, so that their end is not seen.
  void forget_calls(std::size_t index);
  /// The steps that a process began, from number `next` on, counted from 0 as they came; those that are missing between
  /// them are lost. `process` counts from 0 in the order of the places.
  struct NumberedStep {
    std::uint64_t number = 0;
    BegunStep step;
  };
  [[nodiscard]] std::vector<NumberedStep> take_steps(std::size_t process, std::uint64_t next);
  /// The same of its collectives that are kept one by one, once that was asked for.
  struct NumberedSample {
    std::uint64_t number = 0;
    SampledCall call;
  };
  [[nodiscard]] std::vector<NumberedSample> take_samples(std::size_t process, std::uint64_t next);
  void begin_sampling(std::size_t process) noexcept;
  /// The same of its rare calls.
  struct NumberedRareCall {
    std::uint64_t number = 0;
    RareCall call;
  };
  [[nodiscard]] std::vector<NumberedRareCall> take_rare_calls(std::size_t process, std::uint64_t next);
  /// Time in which a process had a collective under way, of those that have ended.
  [[nodiscard]] std::uint64_t communication_ns(std::size_t process) const noexcept;
  /// The collectives of a process on one communicator, when they were read.
  struct Communicator {
    std::size_t order = 0;  // its place among those of the process
    std::uint64_t handle = 0;
    std::uint32_t ranks = 0, rank = 0;  // their number and the own one; 0 ranks: not known
    std::uint64_t id = 0;               // equal on its ranks, and `calls` is complete; 0: not known
    std::uint64_t calls = 0;
    std::uint64_t begin_ns = 0;  // begin of the newest; without any, when it was made
    struct Call {
      std::size_t function = 0;
      std::optional<std::uint64_t> bytes;
    };
    std::vector<Call> newest;  // that one first
  };
  /// Nothing if there are too many of them.
  [[nodiscard]] std::vector<Communicator> communicators(std::size_t process) const;
  /// When the oldest call under way began, by index.
  [[nodiscard]] std::map<std::size_t, std::int64_t> pending() const;

  [[nodiscard]] bool is_multi() const noexcept { return way_ == Way::multi; }
  /// Several functions at once save requests to it; without it, they save nothing.
  [[nodiscard]] bool asks_broker() const noexcept { return broker_ != nullptr; }
  /// The number of links that are detached at the same time, if they are detached together.
  [[nodiscard]] std::size_t detached_together() const noexcept { return is_multi() ? CallQuestion::kMostLinks : 1; }
  [[nodiscard]] std::string_view way() const noexcept;
  /// The delay of one call in nanoseconds; bias_ns() is the part of it that the measured duration contains.
  [[nodiscard]] double cost_ns(bool timed) const noexcept { return timed ? costs_.timed_ns : costs_.entry_ns; }
  [[nodiscard]] double cost_ns(const CallShape& shape) const noexcept {
    if (shape.clock) return costs_.clock_ns;
    return cost_ns(shape.timed) + (is_recorded(shape) ? costs_.recording_ns : 0);
  }
  /// Processor time that this thread, those that detach, and the broker have used so far. Attaching and detaching take
  /// little of it: most of their time is waiting in the kernel.
  [[nodiscard]] std::int64_t cpu_ns() const noexcept;
  /// As close_call_links(), in the broker's process if that has attached.
  void let_go() noexcept;
  [[nodiscard]] double bias_ns() const noexcept { return costs_.bias_ns; }
  [[nodiscard]] const CallCosts& costs() const noexcept { return costs_; }
  [[nodiscard]] CallMaps maps() const noexcept {
    return {.counts = counts_.map(), .pending = pending_.get(), .steps = steps_.map()};
  }

 private:
  struct Programs {
    Descriptor entry, exit;
  };
  /// Null, with errno: the kernel refuses one.
  const Programs* programs_of(const CallShape& shape);
  /// Programs that are refused are tried again the next time.
  void load_programs(bool timed);
  /// The number of those that come first, as the ends of calls between marks do.
  [[nodiscard]] static std::size_t ends_of(std::span<const Point> points) noexcept;
  enum class When : bool { here, at_return };
  [[nodiscard]] int attach_all(int file, pid_t pid, int program, When when, std::span<const Point> points,
                               CallLinks& links) const;
  [[nodiscard]] Attached attach_function(int file, pid_t pid, const Function& function, const Programs& programs) const;
  [[nodiscard]] std::vector<Attached> attach_by_broker(int file, pid_t pid, std::span<const Function> functions) const;
  [[nodiscard]] std::vector<std::pair<PendingCall, std::int64_t>> all_pending() const;
  void drop_pending(std::size_t first, std::size_t count);
  void drop_pending(const PendingCall& call) const;
  /// "", or why this way does not count.
  [[nodiscard]] std::string try_way(Way way);
  [[nodiscard]] std::string calibrate(const CallShape& shape, double& cost_ns);

  /// A value of an array map for each place, in memory that is shared with the kernel.
  template <typename Value>
  class SharedArray {
   public:
    /// Throws Unavailable.
    SharedArray(Descriptor map, std::size_t places);
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

  std::unique_ptr<CallBroker> broker_;  // null: the privilege is ours
  SharedArray<CallCounts> counts_;
  SharedArray<StepRing> steps_;
  Descriptor pending_;
  Way way_ = Way::multi;
  std::uint32_t perf_type_ = 0;
  std::map<CallShape, Programs> programs_;
  std::set<bool> loaded_;  // those for functions that are timed, and for others
  CallCosts costs_;
};

}  // namespace reveal
