// The counts of each instance ("rank0") so far, over all its processes, its training steps, some of its collectives and
// its rare calls: from the memory that is shared with the kernel to the lines of the worker's answer. Two threads use
// it: the one that attaches, and the one that answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/stack/call_counters.h"
#include "core/stack/stack_functions.h"

namespace reveal {

/// The time since the newest collective of a process, against the longest one between two collectives before.
class TimeWithoutCall {
 public:
  /// Once for each such time: it is longer than the process makes none anyway.
  [[nodiscard]] bool is_long(std::uint64_t newest_ns, std::uint64_t now_ns);

 private:
  std::uint64_t newest_ns_ = 0;  // its begin
  std::uint64_t age_ns_ = 0;     // when it was last looked at
  std::uint64_t longest_ns_ = 0;
  bool told_ = false;
};

class CallLedger {
 public:
  /// `counters` outlive it; `longest` is how long an answer may be.
  CallLedger(CallCounters& counters, std::size_t longest);

  /// The process with this number counts calls of the function for the instance, since that time (CLOCK_MONOTONIC). It
  /// has places for all functions in a row.
  void attached(const std::string& instance, std::size_t function, std::size_t process, bool timed,
                std::int64_t since_ns);
  /// The instance's process is there no more: its newest calls are its last ones.
  void process_ended(const std::string& instance);
  /// Nothing of the instance's process is attached any more.
  void ended(const std::string& instance);
  /// The function is about to be detached in all processes: what it counts from now on belongs to no row, until it is
  /// attached again after resume(). `why` is told with the part of the time in which it was counted.
  void rest(std::size_t function, std::string why);
  /// These are to be attached again: the next answer has their sums once more. What they count is of the time since the
  /// row of that answer only if they are attached before another one, while is_told().
  void announce(std::span<const std::size_t> functions);
  /// The newest answer had its sums because it was announced.
  [[nodiscard]] bool is_told(std::size_t function) const;
  void resume(std::size_t function);
  [[nodiscard]] bool rests(std::size_t function) const;

  /// A sentence for the reader of the report. It may have the name of a user's file in it.
  void note(std::string sentence);
  /// The calls of one more process are counted and not timed.
  void untimed_process();
  /// These are not measured, because probing them would cost too much.
  void slow(std::span<const std::size_t> functions);
  /// It could not be attached in a process.
  void failed(std::size_t function, std::string_view why);
  /// These are never attached, because the configuration names them: their calls are in no sum.
  void leave_out(std::span<const std::size_t> functions);
  /// So many functions of the instance's process were attached, and that took so long.
  void attaching_took(const std::string& instance, std::size_t functions, std::int64_t ns);
  /// Attaching to the instance's process goes on in a later round: its sums are not whole until that is over.
  void delay(const std::string& instance, bool delayed);

  enum class With : std::uint8_t { sums, durations };
  /// The lines of an answer: see query_stack(). Steps and calls that do not fit are in the next one.
  [[nodiscard]] std::string answer(With with = With::sums);

 private:
  /// The counts of one function in one instance.
  struct Row {
    bool counted = false;
    bool timed = false;
    bool rests = false;                  // not all of its calls are counted
    std::optional<std::size_t> index;    // index of its process, while that is attached
    CallCounts ended;                    // counts of its earlier processes
    std::uint64_t communication_ns = 0;  // time of these with a collective under way; of such a function only
  };
  struct Step {
    std::uint64_t number = 0;  // from 1
    std::uint64_t begin_ns = 0;
    std::optional<std::uint64_t> duration_ns, waiting_ns, bytes, gc_ns;
  };
  struct Instance {
    std::vector<Row> rows;  // by function
    // For the process that is attached:
    std::optional<std::size_t> process;
    std::uint64_t next_step = 0;                      // from 0
    std::optional<CallCounters::NumberedStep> begun;  // the step that is under way
    bool delayed = false;                             // not all is attached yet
    bool partly_counted = false;                      // the step under way: not all was attached in all of it
    std::uint64_t unsized = 0;                        // calls without a size so far
    bool partly_sized = false;                        // the step under way, and those just ended: some had no size
    std::optional<std::size_t> communicating;         // the process, if it may make collectives
    std::uint64_t recorded_since_ns = 0;              // all of its collectives; of earlier ones, some may be missing
    std::uint64_t next_sample = 0;                    // from 0
    std::uint64_t sampled_since_ns = 0;               // begin of the numbers of its collectives: all are attached
    bool has_gap = false;                             // one of its functions has rested: numbers mean nothing behind it
    bool is_over = false;                             // the process has ended
    std::map<std::size_t, std::uint64_t> told_calls;  // the newest call that was listed, by order of the communicator
    std::optional<std::size_t> telling;               // the process, if it may make rare calls
    std::uint64_t next_rare = 0;                      // from 0
    // For all of them:
    TimeWithoutCall without_call;
    std::uint64_t steps_before = 0;  // steps of earlier processes
    std::vector<Step> steps;         // to be reported
    std::vector<std::string> calls;  // collectives that are to be reported: the rest of their lines
    std::vector<std::string> rare;   // rare calls, likewise
  };
  /// The times in which a function was counted.
  struct Turns {
    std::int64_t since_ns = 0;
    std::int64_t rested_ns = 0;      // in rests that are over
    std::int64_t rest_begin_ns = 0;  // 0: it does not rest
    bool announced = false;          // the next answer has its sums, though it rests
    bool told = false;               // the newest answer had them
    std::string why;                 // reason of the last rest; "": there was none
  };

  // With the lock held.
  [[nodiscard]] CallCounts sum_of(Row& row);
  [[nodiscard]] std::uint64_t communication_of(const Row& row) const;
  void append_count(std::string& text, const std::string& name, std::size_t function, const Row& row,
                    const CallCounts& sum, const std::map<std::size_t, std::int64_t>& pending) const;
  void take_steps(Instance& instance);
  void take_collectives(Instance& instance);
  void take_rare_calls(Instance& instance);
  void list_call(Instance& instance, const CallCounters::Communicator& communicator, std::size_t function,
                 std::uint64_t number, std::uint64_t begin_ns, bool last = false);
  [[nodiscard]] std::uint64_t unsized_of(const Instance& instance) const;
  void take_step(Instance& instance, const CallCounters::NumberedStep& step);
  void end_step(Instance& instance, const CallCounters::NumberedStep* next);
  void resume_row(Instance& instance, std::size_t function, std::uint64_t since_ns);
  [[nodiscard]] bool is_resting(std::size_t function) const;
  [[nodiscard]] bool is_announced(std::size_t function) const;
  [[nodiscard]] bool has_rested(std::size_t function) const;
  [[nodiscard]] bool is_missed(std::size_t function) const;
  [[nodiscard]] bool records_collectives(const Instance& instance) const;
  [[nodiscard]] bool knows_waiting(const Instance& instance) const;
  [[nodiscard]] bool knows_gc(const Instance& instance) const;
  [[nodiscard]] bool makes_collectives(const Instance& instance) const;
  [[nodiscard]] bool knows_bytes(const Instance& instance) const;
  [[nodiscard]] bool numbers_collectives() const;
  void append_standing(std::string& text, const std::string& name, Instance& instance) const;
  [[nodiscard]] static double counted_share(const Turns& turns);
  void append_notes(std::string& text, std::uint64_t unsized, std::uint64_t untimed) const;
  [[nodiscard]] bool has_steps() const;
  [[nodiscard]] std::vector<std::pair<const std::string, Instance>*> in_turn(std::size_t turn);
  void append_steps(std::string& text);
  using Lines = std::vector<std::string> Instance::*;
  void append_lines(std::string& text, std::string_view what, Lines lines);
  void append_durations(std::string& text);

  CallCounters& counters_;
  std::span<const StackFunction> functions_;
  std::size_t longest_;

  mutable std::mutex mutex_;
  std::map<std::string, Instance> instances_;
  std::set<std::size_t> attached_, slow_, failed_, left_out_;  // functions
  std::map<std::size_t, Turns> turns_;                         // functions that were attached
  std::set<std::string> notes_;
  std::int64_t longest_attaching_ns_ = 0;
  std::string longest_attaching_;  // "rank0 31 212000000"
  int untimed_processes_ = 0;
  std::uint64_t steps_lost_ = 0;
  std::uint64_t collectives_lost_ = 0;
  std::uint64_t rare_lost_ = 0;
  std::size_t answers_ = 0;
  std::size_t answers_with_durations_ = 0;
};

}  // namespace reveal
