// Mahalanobis distance in the principal components of the windows' core: a strange tenth cannot hide itself by widening
// the ellipsoid it is measured with.
#include <cmath>

#include "postproc/detect/windows/window_detector.h"

namespace reveal {

namespace {

std::vector<double> robust_mahalanobis(const RobustWindows& windows, std::uint64_t /*seed*/) {
  std::vector<double> score(windows.windows);
  const PrincipalComponents& pc = windows.components;
  if (windows.kept == 0) return score;
  const auto inverse = pc.variances.head(windows.kept).cwiseInverse();
  Eigen::Map<Eigen::VectorXd>(score.data(), pc.coordinates.rows()) =
      (pc.coordinates.leftCols(windows.kept).cwiseAbs2() * inverse / static_cast<double>(windows.kept)).cwiseSqrt();
  return robust_score_of_distance(std::move(score));
}

const RegisteredWindowDetector kRobustMahalanobis{
    1,
    {Method::robust_mahalanobis, "Mahalanobis distance in the principal components of the core", 1, 0.5, false,
     robust_mahalanobis}};

}  // namespace

}  // namespace reveal
