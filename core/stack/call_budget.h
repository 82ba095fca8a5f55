// The limit of the cost of counting for the job: a share of the cpu time of its processes.
#pragma once

namespace reveal {

/// The function that must be detached, if any, so that counting stays within its share of the processes' cpu time.
class CallBudget {
 public:
  static constexpr double kShare = 0.005;
  /// The part that may be spent at once: a program that starts allocates in bursts.
  static constexpr double kBurstNs = 50e6;

  void begin(double cpu_ns) noexcept;
  void spend(int function, double calls, double cost_ns) noexcept;
  /// -1: none.
  [[nodiscard]] int end() noexcept;

 private:
  double left_ns_ = kBurstNs;
  double most_ns_ = 0;
  int dearest_ = -1;
};

}  // namespace reveal
