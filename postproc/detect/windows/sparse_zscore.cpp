// Robust z, from sparse to dense: the mean evidence of the few strangest channels. One channel that errs and many that
// drift a little are different events; three sizes of "few" see both.
#include <algorithm>
#include <functional>

#include "postproc/detect/windows/window_detector.h"

namespace reveal {

namespace {

constexpr Eigen::Index kFew = 3;
constexpr Eigen::Index kSome = 10;
constexpr Eigen::Index kSixth = 6;

/// Over windows with weights 1 2 3 2 1.
Eigen::MatrixXf smoothed(const Eigen::MatrixXf& evidence) {
  const Eigen::Index n = evidence.rows();
  Eigen::MatrixXf result = Eigen::MatrixXf::Zero(n, evidence.cols());
  for (Eigen::Index w = 0; w < n; ++w) {
    for (Eigen::Index d = -2; d <= 2; ++d) {
      const Eigen::Index at = std::clamp<Eigen::Index>(w + d, 0, n - 1);
      result.row(w) += static_cast<float>(3 - std::abs(d)) / 9.0F * evidence.row(at);
    }
  }
  return result;
}

std::vector<double> sparse_zscore(const RobustWindows& windows, std::uint64_t /*seed*/) {
  std::vector<double> score(windows.windows);
  if (windows.channels.empty()) return score;
  const Eigen::MatrixXf evidence = smoothed(windows.evidence);
  std::vector<Eigen::Index> sizes{kFew, kSome};
  // Where there are hundreds of channels, a sixth of them is the whole host.
  if (windows.channels.size() <= kManyChannels) sizes.push_back(std::max<Eigen::Index>(1, evidence.cols() / kSixth));
  std::vector<float> row(windows.channels.size());
  for (Eigen::Index& size : sizes) size = std::min(size, evidence.cols());
  std::vector<std::vector<double>> means(sizes.size(), std::vector<double>(windows.windows));
  for (Eigen::Index w = 0; w < evidence.rows(); ++w) {
    Eigen::Map<Eigen::RowVectorXf>(row.data(), evidence.cols()) = evidence.row(w);
    const auto largest = *std::max_element(sizes.begin(), sizes.end());
    std::partial_sort(row.begin(), row.begin() + largest, row.end(), std::greater<>());
    for (std::size_t s = 0; s < sizes.size(); ++s) {
      double sum = 0;
      for (Eigen::Index c = 0; c < sizes[s]; ++c) sum += row[static_cast<std::size_t>(c)];
      means[s][static_cast<std::size_t>(w)] = sum / static_cast<double>(sizes[s]);
    }
  }
  for (std::vector<double>& mean : means) {
    const std::vector<double> part = robust_score(std::move(mean));
    for (std::size_t w = 0; w < score.size(); ++w) score[w] += part[w] / static_cast<double>(sizes.size());
  }
  return score;
}

const RegisteredWindowDetector kSparseZscore{
    0, {Method::robust_z, "robust z of the strangest 3, 10 and sixth of the channels", 1, 2, true, sparse_zscore}};

}  // namespace

}  // namespace reveal
