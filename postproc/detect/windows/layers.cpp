#include "postproc/detect/windows/layers.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "postproc/detect/windows/knn_distance.h"
#include "postproc/numerics/percentile.h"
#include "postproc/numerics/principal_components.h"
#include "postproc/telemetry/call_facts.h"

namespace reveal {

namespace {

constexpr std::size_t kAlike = 10;
constexpr std::size_t kSameTime = 10;  // within a tenth of the windows: an event has itself there
constexpr std::size_t kLeastSameTime = 5;
constexpr double kReach = 1.5;  // quartiles beyond the median
constexpr double kLeastQuartile = 0.02;
constexpr double kLeastDistance = 1e-9;

constexpr std::size_t kMostTrainedOn = 100;
constexpr Eigen::Index kLayerComponents = 4;
constexpr double kLayerVarianceKept = 0.9;
constexpr double kLeastLeft = 1e-9;  // share of the calm windows' variance: rounding
constexpr double kLittle = -1;       // deviations: a window of which less is left, a gap, is no stranger

/// Metrics of calls whose instance is a process, and no function of it.
struct MetricOfProcess {
  std::string_view metric;
  Layer layer;
};
constexpr MetricOfProcess kOfProcess[] = {
    {"stack.steps", Layer::steps}, {"stack.step_time", Layer::steps}, {"stack.communication", Layer::collective}};

/// Returns the mean and the deviation of a column over the calm windows.
std::pair<double, double> scale_of(const Eigen::VectorXd& column, const std::vector<Eigen::Index>& calm) {
  const Eigen::ArrayXd values = column(calm).array();
  const double mean = values.mean();
  return {mean, std::sqrt((values - mean).square().mean())};
}

/// The windows that several others at another time resemble as much as is usual among the calmer half of all.
std::vector<Eigen::Index> calm_windows(const Eigen::MatrixXd& gram) {
  const auto windows = static_cast<std::size_t>(gram.rows());
  const std::size_t same_time = std::max(kLeastSameTime, windows / kSameTime);
  std::vector<double> distance = neighbour_distances(gram, kAlike, same_time);
  for (double& d : distance) d = std::log(std::max(d, kLeastDistance));
  const double median = percentile(distance, 50);
  const double limit = median + kReach * std::max(median - percentile(distance, 25), kLeastQuartile);
  std::vector<Eigen::Index> calm;
  for (std::size_t w = 0; w < windows; ++w) {
    if (distance[w] <= limit) calm.push_back(static_cast<Eigen::Index>(w));
  }
  return calm;
}

std::vector<Eigen::Index> evenly_of(const std::vector<Eigen::Index>& all, std::size_t most) {
  if (all.size() <= most) return all;
  std::vector<Eigen::Index> spread(most);
  for (std::size_t i = 0; i < most; ++i) spread[i] = all[(2 * i + 1) * all.size() / (2 * most)];
  return spread;
}

}  // namespace

Layer layer_of(const Channel& channel) {
  static_assert(static_cast<int>(Layer::self) == static_cast<int>(Subsystem::self));
  const auto of_subsystem = static_cast<Layer>(channel.subsystem);
  if (!channel.metric.starts_with("stack.")) return of_subsystem;
  for (const MetricOfProcess& row : kOfProcess) {
    if (row.metric == channel.metric) return row.layer;
  }
  switch (call_facts(call_instance(channel.instance).function).library) {
    case CallLibrary::torch:
      return Layer::steps;
    case CallLibrary::cuda:
    case CallLibrary::cuda_driver:
      return Layer::cuda;
    case CallLibrary::nccl:
    case CallLibrary::gloo:
    case CallLibrary::mpi:
      return Layer::collective;
    case CallLibrary::python:
      return Layer::python;
    case CallLibrary::unknown:
      break;
  }
  return of_subsystem;
}

LayerWindows layer_windows(Layer layer, const Eigen::MatrixXd& gram) {
  const std::vector<Eigen::Index> calm = calm_windows(gram);
  LayerWindows result{.layer = layer, .calm = evenly_of(calm, kMostTrainedOn), .all_calm = calm.size(), .rows = {}};
  const PrincipalComponents pc = principal_components(gram, result.calm, kLayerComponents);
  Eigen::Index kept = 0;
  for (double held = 0; kept < pc.variances.size() && held < kLayerVarianceKept * pc.total_variance;) {
    held += pc.variances[kept++];
  }
  if (kept == 0) return result;
  // The rest beside the components: the squared distance from the calm windows' mean, less their part of it.
  const Eigen::VectorXd to_calm = gram(Eigen::all, result.calm).rowwise().mean();
  Eigen::VectorXd left = gram.diagonal() - 2 * to_calm;
  left.array() += to_calm(result.calm).mean();
  left -= pc.coordinates.leftCols(kept).rowwise().squaredNorm();
  left = left.cwiseMax(kLeastLeft * pc.total_variance).array().log() / 2;
  const auto [mean, deviation] = scale_of(left, result.calm);
  const bool leaves_nothing = !(deviation > 0);
  result.rows.resize(gram.rows(), kept + (leaves_nothing ? 0 : 1));
  result.rows.leftCols(kept) =
      pc.coordinates.leftCols(kept) * pc.variances.head(kept).cwiseSqrt().cwiseInverse().asDiagonal();
  if (!leaves_nothing) result.rows.col(kept) = ((left.array() - mean) / deviation).cwiseMax(kLittle);
  return result;
}

}  // namespace reveal
