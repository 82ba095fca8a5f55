// The job as rules, comparisons and timelines look at it: itself where it is one piece, else its pieces with longer
// steps.
#pragma once

#include <cstddef>
#include <vector>

#include "postproc/telemetry/telemetry.h"

namespace reveal {

class Overview {
 public:
  /// `job`: node, step and channels of a job of so many samples; it outlives the overview.
  Overview(const Telemetry& job, std::size_t samples) : job_(job), samples_(samples) {}

  /// Pieces follow each other, and all but the last hold a multiple of 1000 samples. One that is the whole job is
  /// borrowed.
  void add(const Telemetry& piece);

  [[nodiscard]] const Telemetry& telemetry() const { return filled_ > 0 ? longer_ : *whole_; }
  /// Samples of the job in one of telemetry()'s.
  [[nodiscard]] std::size_t factor() const { return factor_; }

 private:
  void begin();

  const Telemetry& job_;
  std::size_t samples_;
  std::size_t factor_ = 1;
  const Telemetry* whole_ = &job_;
  Telemetry longer_;
  std::size_t filled_ = 0;  // samples of it
  std::vector<double> series_;
};

}  // namespace reveal
