// How much processor time live detection may take: a share of one core, saved up for when something happens. A run that
// does not fit is skipped, and counted.
#pragma once

#include <cstdint>

namespace reveal {

class CpuBudget {
 public:
  /// `share` of one core, 0.1 = ten percent.
  explicit CpuBudget(double share) : share_(share) {}

  enum class Need : std::uint8_t {
    routine,  // waits until its cost was saved up
    urgent,   // may borrow
  };
  /// `now_seconds` of any clock that does not step; `cost_seconds`: the cost of the last run of this kind.
  [[nodiscard]] bool allows(Need need, double now_seconds, double cost_seconds);
  void spend(double cost_seconds);

  [[nodiscard]] double spent_seconds() const { return spent_; }
  [[nodiscard]] std::int64_t runs() const { return runs_; }
  /// Urgent ones that had to wait.
  [[nodiscard]] std::int64_t skipped() const { return skipped_; }

 private:
  double share_;
  double saved_ = 0;
  double last_seconds_ = -1;
  double spent_ = 0;
  std::int64_t runs_ = 0;
  std::int64_t skipped_ = 0;
};

}  // namespace reveal
