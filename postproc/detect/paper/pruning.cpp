#include "postproc/detect/paper/pruning.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>

#include "postproc/features/feature_matrix.h"
#include "postproc/numerics/inner_products.h"
#include "postproc/numerics/present_values.h"
#include "postproc/telemetry/metric_facts.h"

namespace reveal {

namespace {

/// One channel in all pieces of a trace, which are taken in their order.
class ChannelCourse {
 public:
  void take(std::span<const double> values) {
    const PresentValues piece = present_values(values);
    note_pattern(values, piece.constant());
    low_ = std::min(low_, piece.low);
    high_ = std::max(high_, piece.high);
    if (piece.present == 0) return;
    const double mean = piece.mean();
    double squares = 0;
    for (const double v : values) squares += std::isnan(v) ? 0 : (v - mean) * (v - mean);
    // https://en.wikipedia.org/wiki/Algorithms_for_calculating_variance#Parallel_algorithm
    const auto present = static_cast<double>(piece.present);
    const double part = present / (present_ + present);
    const double apart = present_ > 0 ? mean - mean_ : 0;
    squares_ += squares + apart * apart * present_ * part;
    mean_ = present_ > 0 ? mean_ + apart * part : mean;
    present_ += present;
  }

  /// Neither static nor strictly periodic. Missing values make a constant channel neither of them to the letter; it
  /// still carries no information.
  [[nodiscard]] bool moves() const { return low_ < high_ && pattern_.empty(); }

  /// The part of a piece, centred, norm 1 over all pieces, missing values at the mean: the dot product of two channels
  /// is Pearson's r.
  void put_unit(std::span<const double> values, Eigen::Ref<Eigen::RowVectorXf> row) const {
    if (!(squares_ > 0)) {
      row.setZero();
      return;
    }
    const double norm = std::sqrt(squares_);
    for (std::size_t t = 0; t < values.size(); ++t) {
      const double v = std::isnan(values[t]) ? 0 : (values[t] - mean_) / norm;
      row[static_cast<Eigen::Index>(t)] = static_cast<float>(v);
    }
  }

 private:
  /// Keeps the pattern that the first piece repeats, as long as the others repeat it, too.
  void note_pattern(std::span<const double> values, bool constant) {
    if (samples_ == 0 && !constant) {
      if (const auto period = exact_period(values))
        pattern_.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(*period));
    }
    for (std::size_t t = 0; t < values.size() && !pattern_.empty(); ++t) {
      const double before = pattern_[(samples_ + t) % pattern_.size()];
      const bool repeated = values[t] == before || (std::isnan(values[t]) && std::isnan(before));
      if (!repeated) pattern_.clear();
    }
    samples_ += values.size();
  }

  std::size_t samples_ = 0;
  std::vector<double> pattern_;  // one period; empty: there is none
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
  double present_ = 0;
  double mean_ = 0;
  double squares_ = 0;  // sum of the squared distances from the mean
};

/// A part of a telemetry.
struct Piece {
  const Telemetry& telemetry;
  std::size_t begin, samples;

  [[nodiscard]] std::span<const double> series(std::size_t channel) const {
    return telemetry.series(channel).subspan(begin, samples);
  }
};

/// One course per channel; those of reveal itself and of states stay empty, and do not move.
void take_piece(const Piece& piece, std::vector<ChannelCourse>& courses) {
  const std::vector<Channel>& channels = piece.telemetry.channels;
  courses.resize(channels.size());
  for (std::size_t c = 0; c < channels.size(); ++c) {
    if (channels[c].subsystem == Subsystem::self || channels[c].kind == Kind::state) continue;
    courses[c].take(piece.series(c));
  }
}

std::vector<std::size_t> moving_channels(const std::vector<ChannelCourse>& courses) {
  std::vector<std::size_t> channels;
  for (std::size_t c = 0; c < courses.size(); ++c) {
    if (courses[c].moves()) channels.push_back(c);
  }
  return channels;
}

/// The part of a piece in r, with its sign.
Eigen::MatrixXf part_of_r(const Piece& piece, const std::vector<std::size_t>& channels,
                          const std::vector<ChannelCourse>& courses) {
  using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto n = static_cast<Eigen::Index>(channels.size());
  Rows rows(n, static_cast<Eigen::Index>(piece.samples));
  for (Eigen::Index i = 0; i < n; ++i) {
    const std::size_t channel = channels[static_cast<std::size_t>(i)];
    courses[channel].put_unit(piece.series(channel), rows.row(i));
  }
  // The same memory, seen as one channel per column.
  const Eigen::Map<const Eigen::MatrixXf> columns(rows.data(), rows.cols(), rows.rows());
  return inner_products(columns);
}

/// The lowest is kept first; metrics without a rank come last.
int pruning_priority(std::string_view metric) {
  const int rank = fact_of(metric, &MetricFact::prune_rank);
  return rank > 0 ? rank : std::numeric_limits<int>::max();
}

}  // namespace

ChannelCorrelation correlate(const Telemetry& telemetry, std::size_t begin, std::size_t samples) {
  const Piece whole{telemetry, begin, samples};
  std::vector<ChannelCourse> courses;
  take_piece(whole, courses);
  ChannelCorrelation result{.channels = moving_channels(courses), .r = {}};
  result.r = part_of_r(whole, result.channels, courses).cwiseAbs();
  return result;
}

ChannelCorrelation correlate(std::size_t pieces, const std::function<Telemetry(std::size_t)>& load) {
  std::vector<ChannelCourse> courses;
  Telemetry piece;
  const auto load_next = [&](std::size_t number) {
    piece = Telemetry();  // the last one is freed before the next one is loaded
    piece = load(number);
  };
  for (std::size_t i = 0; i < pieces; ++i) {
    load_next(i);
    take_piece({piece, 0, piece.samples}, courses);
  }
  ChannelCorrelation result{.channels = moving_channels(courses), .r = {}};
  const auto n = static_cast<Eigen::Index>(result.channels.size());
  result.r = Eigen::MatrixXf::Zero(n, n);
  for (std::size_t i = 0; i < pieces; ++i) {
    if (pieces > 1) load_next(i);
    result.r += part_of_r({piece, 0, piece.samples}, result.channels, courses);
  }
  result.r = result.r.cwiseAbs();
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
