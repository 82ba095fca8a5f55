// A window detector: one score per row of a feature matrix, higher is stranger. Ranking, combining and thresholds are
// the pipeline's business.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <string_view>
#include <vector>

#include "postproc/detect/episode.h"
#include "postproc/features/feature_matrix.h"

namespace reveal {

struct Detector {
  std::string_view name;  // "isolation_forest"
  Method method = Method::paper_z;
  std::string_view reference;
  /// `z`: standardised features, [window, feature].
  std::vector<double> (*score)(const Eigen::MatrixXd& z, std::uint64_t seed);
};

/// All registered detectors in the paper's order of naming: Z, MAHA, IF.
[[nodiscard]] const std::vector<Detector>& detectors();

struct RegisteredDetector {
  RegisteredDetector(int order, const Detector& detector);
};

}  // namespace reveal
