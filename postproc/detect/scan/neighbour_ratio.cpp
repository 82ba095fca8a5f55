#include "postproc/detect/scan/neighbour_ratio.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "postproc/numerics/inner_products.h"
#include "postproc/numerics/simd.h"

namespace reveal {

namespace {

constexpr std::size_t kReferences = 256;    // series that a series' share in common is measured against
constexpr std::size_t kMostSeries = 400;    // the series that share most
constexpr std::size_t kStepsPerLength = 4;  // positions per length of the intervals that it is compared with
constexpr std::size_t kMinSeconds = 3;      // shortest interval
constexpr std::size_t kMinOutside = 4;
constexpr std::size_t kMargin = 1;  // second around an interval that is neither inside nor outside

REVEAL_WIDE float least_of(const float* values, std::size_t n, float least) {
  WideFloats leasts = WideFloats{} + least;
  std::size_t i = 0;
  for (; i + kWide <= n; i += kWide) {
    const WideFloats v = *reinterpret_cast<const WideFloats*>(values + i);
    leasts = v < leasts ? v : leasts;
  }
  for (unsigned lane = 0; lane < kWide; ++lane) least = std::min(least, leasts[lane]);
  for (; i < n; ++i) least = std::min(least, values[i]);
  return least;
}

/// Means per second of the detecting series, [second, series], each with mean 0 and variance 1.
Eigen::MatrixXf seconds_of(const ScanInput& input, std::size_t window) {
  std::vector<std::size_t> used;
  for (std::size_t i = 0; i < input.series.size(); ++i) {
    if (input.series[i].detects) used.push_back(i);
  }
  Eigen::MatrixXf means(static_cast<Eigen::Index>(input.samples / window), static_cast<Eigen::Index>(used.size()));
  for (Eigen::Index c = 0; c < means.cols(); ++c) {
    const auto scores = input.of(used[static_cast<std::size_t>(c)]);
    for (Eigen::Index k = 0; k < means.rows(); ++k) {
      const auto first = scores.begin() + static_cast<std::ptrdiff_t>(k) * static_cast<std::ptrdiff_t>(window);
      means(k, c) = std::accumulate(first, first + static_cast<std::ptrdiff_t>(window), 0.0F);
    }
    means.col(c).array() -= means.col(c).mean();
    const float deviation = std::sqrt(means.col(c).squaredNorm() / static_cast<float>(means.rows()));
    if (deviation > 0) means.col(c) /= deviation;
  }
  return means;
}

/// Mean squared correlation with the others.
Eigen::VectorXf shared_variance(const Eigen::MatrixXf& seconds) {
  const auto stride = static_cast<Eigen::Index>(static_cast<std::size_t>(seconds.cols()) / kReferences + 1);
  const Eigen::Index references = (seconds.cols() + stride - 1) / stride;
  Eigen::MatrixXf some(seconds.rows(), references);
  for (Eigen::Index r = 0; r < references; ++r) some.col(r) = seconds.col(r * stride);
  const Eigen::MatrixXf r = inner_products(some, seconds) / static_cast<float>(seconds.rows());
  return r.colwise().squaredNorm().transpose() / static_cast<float>(references);
}

}  // namespace

NeighbourRatio::NeighbourRatio(const ScanInput& input, const ScanScale& scale) : window_(scale.samples(1)) {
  Eigen::MatrixXf seconds = seconds_of(input, window_);
  if (seconds.rows() == 0 || seconds.cols() == 0) return;
  const Eigen::VectorXf weight = shared_variance(seconds);
  std::vector<Eigen::Index> order(static_cast<std::size_t>(seconds.cols()));
  std::iota(order.begin(), order.end(), Eigen::Index{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return weight[a] > weight[b]; });
  order.resize(std::min(order.size(), kMostSeries));

  Eigen::MatrixXf weighted(static_cast<Eigen::Index>(order.size()), seconds.rows());  // a second per column
  for (std::size_t i = 0; i < order.size(); ++i) {
    weighted.row(static_cast<Eigen::Index>(i)) = seconds.col(order[i]).transpose() * std::sqrt(weight[order[i]]);
  }
  distances_ = -2.0F * inner_products(weighted);
  const Eigen::VectorXf squares = weighted.colwise().squaredNorm();
  distances_.colwise() += squares;
  distances_.rowwise() += squares.transpose();
  distances_ = distances_.array().max(0.0F).sqrt();
}

double NeighbourRatio::unlike(const Span& span, const std::vector<bool>& left_out) const {
  const auto n = static_cast<std::size_t>(distances_.rows());
  std::vector<Span> outside;  // runs of seconds
  std::size_t count = 0;
  for (std::size_t s = 0; s < n; ++s) {
    if (left_out[s] || (s + kMargin >= span.begin && s < span.end + kMargin)) continue;
    if (outside.empty() || outside.back().end != s) outside.push_back({s, s});
    ++outside.back().end;
    ++count;
  }
  if (count < kMinOutside) return -1;
  double sum = 0;
  for (std::size_t inside = span.begin; inside < span.end; ++inside) {
    const float* distance = distances_.col(static_cast<Eigen::Index>(inside)).data();
    float nearest = std::numeric_limits<float>::infinity();
    for (const Span& run : outside) nearest = least_of(distance + run.begin, run.end - run.begin, nearest);
    sum += nearest;
  }
  return sum / static_cast<double>(span.end - span.begin);
}

double NeighbourRatio::ratio(std::size_t begin, std::size_t end, std::span<const Span> repeats) const {
  const auto n = static_cast<std::size_t>(distances_.rows());
  const auto seconds = [&](std::size_t samples) { return (samples + window_ / 2) / window_; };
  std::size_t length = std::max(kMinSeconds, seconds(end - begin));
  if (length + kMinOutside > n) return 0;
  const std::size_t first = std::min(seconds(begin), n - length);
  const Span mine{first, first + length};
  std::vector<bool> left_out(n);
  for (const Span& repeat : repeats) {
    for (std::size_t s = seconds(repeat.begin); s < std::min(n, seconds(repeat.end) + 1); ++s) left_out[s] = true;
  }
  const double own = unlike(mine, left_out);

  // A long interval leaves no space for another of its length, which needs another to compare with, too.
  const std::size_t room = std::min(std::max(mine.begin, n - mine.end), (n - length) / 2);
  if (room < kMinSeconds + kMargin) return 0;
  length = std::min(length, room - kMargin);
  for (std::size_t s = mine.begin; s < mine.end; ++s) left_out[s] = true;
  double others = -1;  // none was compared
  const std::size_t step = std::max<std::size_t>(1, length / kStepsPerLength);
  const auto compare = [&](std::size_t from, std::size_t to) {
    for (std::size_t b = from; b + length <= to; b += step) {
      bool taken = false;
      for (std::size_t s = b; s < b + length; ++s) taken = taken || left_out[s];
      if (!taken) others = std::max(others, unlike({b, b + length}, left_out));
    }
  };
  compare(0, mine.begin - std::min(mine.begin, kMargin));
  compare(mine.end + kMargin, n);
  if (own <= 0 || others < 0) return 0;
  return others > 0 ? own / others : std::numeric_limits<double>::infinity();
}

}  // namespace reveal
