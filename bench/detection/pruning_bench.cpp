// The paper's Figure 4 over real traces: `pruning_bench PATH...`; a PATH is a job's directory (its nodes together are a
// workload), or a series as `reveal score` reads it. Prints, as CSV, per threshold r = .1 to .95 the means over the
// workloads, and once each workload alone at the paper's .5. `pruning_bench --retained FILE.h5` prints the names that
// pruning at .5 keeps of a series, for bench/detection/pruning.py.
//
// The paper's curves, as far as its text defines them:
//   multi_r2   how well a channel is predicted by the retained ones other than itself (linear regression; adjusted for
//              their number), mean over all channels that move
//   max_r      the strongest |r| of a channel with a retained other one, mean over the channels removed; among the
//              retained it could not be above the threshold, as the paper's is
//   retained   channels kept / channels that move, in one workload
//   union      the same after the union over the workloads, by name: what would be recorded
#include <spdlog/fmt/fmt.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "postproc/detect/paper/retained_metrics.h"
#include "postproc/score/score.h"
#include "postproc/telemetry/job.h"
#include "postproc/telemetry/load.h"

using namespace reveal;

namespace {

constexpr double kRidge = 1e-4;  // added to a correlation matrix, which is singular with duplicated channels

struct Curve {
  double multi_r2 = 0, max_r = 0, retained = 0, channels = 0;
};

std::vector<std::string> names_of(const Telemetry& node, const ChannelCorrelation& correlation) {
  std::vector<std::string> names;
  for (const std::size_t c : correlation.channels) names.push_back(node.channels[c].metric);
  return names;
}

/// R^2 of each row's channel from the retained ones other than itself. With the inverse of their correlation matrix,
/// leaving one out is its diagonal: 1 - R^2 = 1 / inverse(i, i).
double mean_multi_r2(const Eigen::MatrixXd& r, const std::vector<std::size_t>& kept, std::size_t samples) {
  const auto k = static_cast<Eigen::Index>(kept.size());
  Eigen::MatrixXd inner(k, k), across(r.rows(), k);
  for (Eigen::Index j = 0; j < k; ++j) {
    const auto column = static_cast<Eigen::Index>(kept[static_cast<std::size_t>(j)]);
    across.col(j) = r.col(column);
    for (Eigen::Index i = 0; i < k; ++i) {
      inner(i, j) = r(static_cast<Eigen::Index>(kept[static_cast<std::size_t>(i)]), column);
    }
  }
  inner.diagonal().array() += kRidge;
  const Eigen::MatrixXd inverse = inner.ldlt().solve(Eigen::MatrixXd::Identity(k, k));
  std::vector<bool> is_kept(static_cast<std::size_t>(r.rows()));
  double sum = 0;
  const auto explained = [&](double r2, double predictors) {
    const auto n = static_cast<double>(samples);
    if (n - predictors - 1 <= 0) return std::numeric_limits<double>::quiet_NaN();
    return std::clamp(1 - (1 - r2) * (n - 1) / (n - predictors - 1), 0.0, 1.0);
  };
  for (Eigen::Index j = 0; j < k; ++j) {
    is_kept[kept[static_cast<std::size_t>(j)]] = true;
    sum += explained(1 - 1 / inverse(j, j), static_cast<double>(k - 1));
  }
  for (Eigen::Index i = 0; i < r.rows(); ++i) {
    if (is_kept[static_cast<std::size_t>(i)]) continue;
    sum += explained(across.row(i) * inverse * across.row(i).transpose(), static_cast<double>(k));
  }
  return sum / static_cast<double>(r.rows());
}

/// The signed correlations: pruning looks at |r| only, a regression needs the sign.
Eigen::MatrixXd signed_correlation(const Telemetry& node, const ChannelCorrelation& correlation) {
  const auto n = static_cast<Eigen::Index>(correlation.channels.size());
  Eigen::MatrixXd rows(n, static_cast<Eigen::Index>(node.samples));
  for (Eigen::Index i = 0; i < n; ++i) {
    const auto values = node.series(correlation.channels[static_cast<std::size_t>(i)]);
    double sum = 0, present = 0;
    for (const double v : values) {
      if (std::isnan(v)) continue;
      sum += v;
      present += 1;
    }
    for (std::size_t t = 0; t < values.size(); ++t) {
      rows(i, static_cast<Eigen::Index>(t)) = std::isnan(values[t]) ? 0 : values[t] - sum / present;
    }
    rows.row(i).normalize();
  }
  return rows * rows.transpose();
}

Curve at(const Telemetry& node, const ChannelCorrelation& correlation, const Eigen::MatrixXd& with_sign,
         double threshold) {
  const std::vector<std::size_t> kept = representatives(correlation.r, names_of(node, correlation), threshold);
  const auto n = static_cast<std::size_t>(correlation.r.rows());
  Curve curve{.channels = static_cast<double>(n)};
  curve.retained = static_cast<double>(kept.size()) / static_cast<double>(n);
  curve.multi_r2 = mean_multi_r2(with_sign, kept, node.samples);
  double removed = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (std::binary_search(kept.begin(), kept.end(), i)) continue;
    float strongest = 0;
    for (const std::size_t k : kept) {
      strongest = std::max(strongest, correlation.r(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(k)));
    }
    curve.max_r += static_cast<double>(strongest);
    removed += 1;
  }
  curve.max_r /= removed;  // NaN where nothing was removed
  return curve;
}

std::vector<Telemetry> nodes_of(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return {telemetry_of(read_series_file(path))};
  std::vector<Telemetry> nodes;
  for (const ListedTrace& file : list_traces(path)) nodes.push_back(load_trace(file.path).telemetry);
  return nodes;
}

/// Means of all values except NaN.
Curve mean_of(const std::vector<Curve>& curves) {
  Curve mean;
  for (double Curve::*field : {&Curve::multi_r2, &Curve::max_r, &Curve::retained, &Curve::channels}) {
    double count = 0;
    for (const Curve& curve : curves) {
      if (std::isnan(curve.*field)) continue;
      mean.*field += curve.*field;
      count += 1;
    }
    mean.*field /= count;
  }
  return mean;
}

void print(double threshold, const std::string& workload, const Curve& curve, double of_union) {
  fmt::print("{:.2f},{},{:.4f},{:.4f},{:.4f},{:.4f},{:.0f}\n", threshold, workload, curve.multi_r2, curve.max_r,
             curve.retained, of_union, curve.channels);
}

int retained_of(const char* file) {
  const SeriesFile series = read_series_file(file);
  for (const std::size_t channel : prune(telemetry_of(series), 0, series.samples)) {
    fmt::print("{}\n", series.channels[channel]);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--retained") == 0) return retained_of(argv[2]);
  if (argc < 2) {
    fmt::print(stderr, "usage: pruning_bench PATH... | --retained FILE.h5\n");
    return 2;
  }
  constexpr int kSteps = 19;
  std::vector<std::vector<Curve>> curves(kSteps);
  std::vector<RetainedMetrics> unions;
  unions.reserve(kSteps);
  for (int i = 0; i < kSteps; ++i) unions.emplace_back(0.05 * (i + 1));
  fmt::print("threshold,workload,multi_r2,max_r,retained,union,channels\n");
  for (int a = 1; a < argc; ++a) {
    std::vector<std::vector<Curve>> of_nodes(kSteps);
    const std::vector<Telemetry> nodes = nodes_of(argv[a]);
    for (RetainedMetrics& retained : unions) retained.add_workload(nodes);
    for (const Telemetry& node : nodes) {
      const ChannelCorrelation correlation = correlate(node, 0, node.samples);
      if (correlation.channels.size() < 2) continue;
      const Eigen::MatrixXd with_sign = signed_correlation(node, correlation);
      for (int i = 0; i < kSteps; ++i) {
        const auto step = static_cast<std::size_t>(i);
        of_nodes[step].push_back(at(node, correlation, with_sign, 0.05 * (i + 1)));
      }
    }
    for (std::size_t i = 0; i < kSteps; ++i) {
      if (of_nodes[i].empty()) continue;
      curves[i].push_back(mean_of(of_nodes[i]));
      if (i == 9) print(0.5, argv[a], curves[i].back(), std::nan(""));
    }
  }
  for (std::size_t i = 1; i < kSteps; ++i) {
    print(0.05 * static_cast<double>(i + 1), "mean", mean_of(curves[i]),
          static_cast<double>(unions[i].count().retained) / static_cast<double>(unions[i].count().moved));
  }
  return 0;
}
