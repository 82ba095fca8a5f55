// A Gaussian mixture per layer of the system: how improbable a window is as one of the states in which the layer's calm
// windows are. A job has several such states (training, validation, checkpoints), which one ellipsoid spans together.
#include <algorithm>
#include <cmath>

#include "postproc/detect/windows/window_detector.h"
#include "postproc/numerics/gaussian_mixture.h"
#include "postproc/numerics/percentile.h"

namespace reveal {

namespace {

constexpr std::size_t kMostStates = 3;
constexpr double kUsualPercentile = 1;  // percentile among all windows: as probable as one can be

/// The layers are taken for independent of each other: logarithms of probabilities add up.
std::vector<double> layer_mixture(const RobustWindows& windows, std::uint64_t /*seed*/) {
  std::vector<double> score(windows.windows);
  double numbers = 0;
  for (const LayerWindows& layer : windows.layers) {
    if (layer.rows.cols() == 0) continue;
    const double independent = std::min(
        1.0, windows.independent * static_cast<double>(layer.all_calm) / static_cast<double>(layer.calm.size()));
    const Eigen::MatrixXd calm = layer.rows(layer.calm, Eigen::all);
    const Eigen::VectorXd density = GaussianMixture::fit(calm, kMostStates, independent).log_density(layer.rows);
    std::vector<double> improbable(score.size());
    Eigen::Map<Eigen::VectorXd>(improbable.data(), density.size()) = -2 * density;
    const double usual = percentile(improbable, kUsualPercentile);
    for (std::size_t w = 0; w < score.size(); ++w) score[w] += std::max(0.0, improbable[w] - usual);
    numbers += static_cast<double>(layer.rows.cols());
  }
  if (numbers == 0) return score;
  for (double& v : score) v = std::sqrt(v + numbers);
  return robust_score_of_distance(std::move(score));
}

const RegisteredWindowDetector kLayerMixture{
    5, {Method::layer_mixture, "Gaussian mixture of the calm windows, per layer", 1, 1, false, layer_mixture}};

}  // namespace

}  // namespace reveal
