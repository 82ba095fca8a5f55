// One series of normal scores, prepared so that an interval costs a few operations: how far does the mean inside lie
// beyond every mean outside?
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace reveal {

/// Sums of the scores before each sample, and of all.
void prefix_sums(std::span<const float> scores, std::vector<double>& prefix);

struct MeanSums {
  double means = 0;
  double squares = 0;
};
/// Adds up all means of `length` neighbouring scores.
[[nodiscard]] MeanSums sums_of_means(std::span<const double> prefix, std::size_t length);

/// SeriesScan::z() by the prefix sums alone; `variance`: of one independent measurement.
[[nodiscard]] double z_outside(std::span<const double> prefix, double variance, std::size_t reference_length,
                               std::size_t begin, std::size_t end);

class SeriesScan {
 public:
  SeriesScan() = default;
  SeriesScan(std::span<const float> scores, double variance, double hold, std::size_t reference_length);

  /// Another series in the same memory; set_reference_length() follows.
  void assign(std::span<const float> scores, double variance, double hold);
  /// Measures against reference means of another length from here on.
  void set_reference_length(std::size_t length);

  /// In white-noise units; 0 when the interval's mean lies within the range of the reference means, or when no outside
  /// mean is left.
  [[nodiscard]] float gap(std::size_t begin, std::size_t end) const;

  /// Signed distance from the mean of the reference means, in units of the variation there plus white noise.
  [[nodiscard]] double z(std::size_t begin, std::size_t end) const {
    return z_outside(prefix_, variance_, reference_length_, begin, end);
  }

  /// Sums of the scores before each sample, and of all.
  [[nodiscard]] std::span<const double> sums() const { return prefix_; }

  /// gap() of the intervals that begin at 0, step, 2 * step, ... and have one length.
  void gaps(std::size_t length, std::size_t step, std::span<float> out);
  /// gap() of the intervals that begin at first, first + step, ... and last to the end.
  void open_gaps(std::size_t first, std::size_t step, std::span<float> out);

 private:
  /// The largest and smallest reference mean on one side of positions a step apart.
  struct Extremes {
    std::size_t step = 0;
    std::size_t phase = 0;  // phase of the first position
    std::vector<float> high, low;
  };
  bool start(Extremes& extremes, std::size_t phase, std::size_t step) const;
  void extremes_before(std::size_t phase, std::size_t step);
  void extremes_after(std::size_t phase, std::size_t step);
  [[nodiscard]] double mean(std::size_t begin, std::size_t end) const {
    return (prefix_[end] - prefix_[begin]) / static_cast<double>(end - begin);
  }
  [[nodiscard]] float noise(std::size_t length) const;

  std::size_t samples_ = 0;
  double variance_ = 0;  // variance of one independent measurement
  std::size_t reference_length_ = 0;
  std::vector<double> prefix_;             // sums of scores
  std::vector<float> reference_means_;     // that begin at s
  Extremes before_;                        // reference means that begin at or before a position
  Extremes after_;                         // ... at or after it
  std::size_t begin_step_ = 0;             // 0: at_begin_ is of another series
  std::vector<double> at_begin_, at_end_;  // prefix sums, a step apart
};

}  // namespace reveal
