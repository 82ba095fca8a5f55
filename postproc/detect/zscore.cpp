// The paper's first detector: the mean absolute z of a window's features.
#include "postproc/detect/detector.h"

namespace reveal {

namespace {

std::vector<double> mean_abs_z(const Eigen::MatrixXd& z, std::uint64_t /*seed*/) {
  std::vector<double> scores(static_cast<std::size_t>(z.rows()));
  if (z.cols() == 0) return scores;
  Eigen::Map<Eigen::VectorXd>(scores.data(), z.rows()) = z.cwiseAbs().rowwise().mean();
  return scores;
}

const RegisteredDetector entry{0, {"zscore", "Z", "numpy.abs(z).mean(axis=1)", mean_abs_z}};

}  // namespace

}  // namespace reveal
