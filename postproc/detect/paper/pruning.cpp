#include "postproc/detect/paper/pruning.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>

#include "postproc/features/feature_matrix.h"
#include "postproc/numerics/inner_products.h"
#include "postproc/numerics/present_values.h"
#include "postproc/telemetry/metric_facts.h"

namespace reveal {

namespace {

/// Centred, norm 1, missing values at the mean: the dot product of two rows is Pearson's r.
using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

void unit_row(std::span<const double> values, Eigen::Ref<Eigen::RowVectorXf> row) {
  const double mean = present_values(values).mean();
  double squares = 0;
  for (const double v : values) squares += std::isnan(v) ? 0 : (v - mean) * (v - mean);
  if (!(squares > 0)) {
    row.setZero();
    return;
  }
  const double norm = std::sqrt(squares);
  for (std::size_t t = 0; t < values.size(); ++t) {
    const double v = std::isnan(values[t]) ? 0 : (values[t] - mean) / norm;
    row[static_cast<Eigen::Index>(t)] = static_cast<float>(v);
  }
}

}  // namespace

int pruning_priority(std::string_view metric) {
  const int rank = fact_of(metric, &MetricFact::prune_rank);
  return rank > 0 ? rank : std::numeric_limits<int>::max();
}

ChannelCorrelation correlate(const Telemetry& telemetry, std::size_t begin, std::size_t samples) {
  ChannelCorrelation result;
  for (std::size_t c = 0; c < telemetry.channels.size(); ++c) {
    if (telemetry.channels[c].subsystem == Subsystem::self || telemetry.channels[c].kind == Kind::state) continue;
    const auto values = telemetry.series(c).subspan(begin, samples);
    // Missing values make a constant channel neither static nor periodic to the letter; it still carries no
    // information.
    if (!present_values(values).constant() && !is_static_or_periodic(values)) result.channels.push_back(c);
  }
  const auto n = static_cast<Eigen::Index>(result.channels.size());
  Rows rows(n, static_cast<Eigen::Index>(samples));
  for (Eigen::Index i = 0; i < n; ++i) {
    unit_row(telemetry.series(result.channels[static_cast<std::size_t>(i)]).subspan(begin, samples), rows.row(i));
  }
  // The same memory, seen as one channel per column.
  const Eigen::Map<const Eigen::MatrixXf> channels(rows.data(), rows.cols(), rows.rows());
  result.r = inner_products(channels).cwiseAbs();
  return result;
}

std::vector<std::size_t> representatives(const Eigen::MatrixXf& r, const std::vector<std::string>& metrics,
                                         double threshold) {
  struct Candidate {
    Eigen::Index row;
    int priority;
    float variance;
  };
  std::vector<Candidate> order;
  for (Eigen::Index i = 0; i < r.rows(); ++i) {
    const int priority = pruning_priority(metrics[static_cast<std::size_t>(i)]);
    order.push_back({i, priority, (r.row(i).array() - r.row(i).mean()).square().mean()});
  }
  std::stable_sort(order.begin(), order.end(), [](const Candidate& a, const Candidate& b) {
    return a.priority != b.priority ? a.priority < b.priority : a.variance > b.variance;
  });
  std::vector<std::size_t> kept;
  for (const Candidate& candidate : order) {
    const auto redundant = [&](std::size_t k) {
      return static_cast<double>(r(candidate.row, static_cast<Eigen::Index>(k))) > threshold;
    };
    if (std::none_of(kept.begin(), kept.end(), redundant)) kept.push_back(static_cast<std::size_t>(candidate.row));
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

std::vector<std::size_t> prune(const Telemetry& telemetry, std::size_t begin, std::size_t samples, double threshold) {
  const ChannelCorrelation correlation = correlate(telemetry, begin, samples);
  std::vector<std::string> metrics;
  metrics.reserve(correlation.channels.size());
  for (const std::size_t c : correlation.channels) metrics.push_back(telemetry.channels[c].metric);
  std::vector<std::size_t> channels = representatives(correlation.r, metrics, threshold);
  for (std::size_t& channel : channels) channel = correlation.channels[channel];
  return channels;
}

}  // namespace reveal
