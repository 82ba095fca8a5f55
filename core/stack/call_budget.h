// The limit of the cost of counting for the job: a share of the cpu time of its processes. Functions that cost more
// rest, and have a turn whenever enough of the share is earned again.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/stack/stack_functions.h"

namespace reveal {

/// ".5 %" of 0.005
[[nodiscard]] std::string percent_of(double share);

class CallBudget {
 public:
  static constexpr double kDefaultShare = 0.005;
  /// The part that may be spent at once, whatever the share: a program that starts allocates in bursts.
  static constexpr double kBurstNs = 50e6;
  /// In rounds, of which each row of the trace has one. Versions before `longest_rest` (hdf5schema/README.md) spread a
  /// counter over a gap of up to 20 rows when they read a trace: over a rest, it must not be.
  static constexpr int kShortestRest = 21;
  static constexpr int kLongestRest = 8 * kShortestRest;
  /// A turn begins when so many rounds' share is saved beside the cost of attaching.
  static constexpr int kTurn = 10;

  /// `order`: of each function.
  explicit CallBudget(const std::vector<Rests>& order, double share = kDefaultShare);

  /// The processes have used so much cpu time since the last call.
  void begin(double cpu_ns) noexcept;
  void spend(std::size_t function, double calls, double cost_ns) noexcept;
  /// Processor time for attaching or detaching it. Until a function rests, it is not a part of the cost.
  void spend_on_turn(std::size_t function, double ns) noexcept;

  /// A function that rests from now on, and the reason.
  struct Excess {
    std::size_t function = 0;
    double calls = 0, spent_ns = 0, cpu_ns = 0;
  };
  [[nodiscard]] std::vector<Excess> end();
  /// Once a round: functions that are to be attached again. All begin their turn together: the time of a collective and
  /// its bytes are in different functions.
  [[nodiscard]] std::vector<std::size_t> next_turn();

 private:
  struct Function {
    Rests order = Rests::by_cost;
    double calls = 0, spent_ns = 0;  // since the cpu time was read last
    double turn_ns = 0;              // the cost of attaching and detaching it for its last turn
    bool rests = false, has_rested = false;
  };
  [[nodiscard]] bool needed_ones_rest() const noexcept;
  [[nodiscard]] std::vector<std::size_t> resting_order() const;
  void put_to_rest(Function& function) noexcept;
  void begin_period() noexcept;
  void begin_turn(const std::vector<std::size_t>& due) noexcept;

  std::vector<Function> functions_;
  double share_;
  double left_ns_ = kBurstNs;
  double saved_ns_ = 0;         // when the last turn began
  double cpu_ns_ = 0;           // since functions were judged last
  double earned_in_round_ = 0;  // ns
  int steady_rounds_ = 0;       // since a function began to rest, or its turn
  int idle_rounds_ = 0;         // the last ones, in which the job used hardly any cpu time
  int rest_ = kShortestRest;    // rounds
  bool had_turn_ = false;
};

}  // namespace reveal
