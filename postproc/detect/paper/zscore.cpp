// The paper's first detector: the mean absolute z of a window's features.
#include <algorithm>

#include "postproc/detect/paper/detector.h"
#include "postproc/numerics/simd.h"

namespace reveal {

namespace {

/// sum += |values|; column by column, as the matrix lies in memory.
REVEAL_WIDE void add_sizes(const double* values, std::size_t n, double* sum) {
  std::size_t w = 0;
  for (; w + kWide <= n; w += kWide) {
    const Wide v = *reinterpret_cast<const Wide*>(values + w);
    *reinterpret_cast<Wide*>(sum + w) += v < 0 ? -v : v;
  }
  for (; w < n; ++w) sum[w] += values[w] < 0 ? -values[w] : values[w];
}

std::vector<double> mean_abs_z(const Eigen::MatrixXd& z, std::uint64_t /*seed*/) {
  std::vector<double> scores(static_cast<std::size_t>(z.rows()));
  for (Eigen::Index c = 0; c < z.cols(); ++c) add_sizes(z.col(c).data(), scores.size(), scores.data());
  for (double& score : scores) score /= static_cast<double>(std::max<Eigen::Index>(1, z.cols()));
  return scores;
}

const RegisteredDetector kZscore{0, {"zscore", Method::paper_z, "numpy.abs(z).mean(axis=1)", mean_abs_z}};

}  // namespace

}  // namespace reveal
