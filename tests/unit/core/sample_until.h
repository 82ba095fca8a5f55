// Waiting for a worker of a probe, which answers in its own time.
#pragma once

#include <chrono>
#include <thread>

namespace reveal {

/// Samples until the condition is met; false if it never is: that costs patience, not the test.
template <typename Bench, typename Condition>
bool sample_until(Bench& bench, const Condition& condition) {
  for (int i = 0; i < 2000; ++i) {
    bench.sample();
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace reveal
