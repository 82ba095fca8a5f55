// The amount that another process may use up of ours at once, and its refill over time.
#pragma once

#include <algorithm>
#include <chrono>

namespace reveal {

class Allowance {
 public:
  Allowance(double most, double per_second) : left_(most), most_(most), per_second_(per_second) {}
  [[nodiscard]] bool is_used_up() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - then_).count();
    left_ = std::min(most_, left_ + seconds * per_second_);
    then_ = now;
    return left_ <= 0;
  }
  void use(double much) { left_ -= much; }

 private:
  double left_, most_, per_second_;
  std::chrono::steady_clock::time_point then_ = std::chrono::steady_clock::now();
};

}  // namespace reveal
