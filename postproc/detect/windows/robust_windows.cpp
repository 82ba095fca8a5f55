#include "postproc/detect/windows/robust_windows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "postproc/detect/windows/daily_baseline.h"
#include "postproc/features/channel_features.h"
#include "postproc/numerics/gram.h"
#include "postproc/numerics/percentile.h"

namespace reveal {

namespace {

/// mean, standard deviation, minimum, maximum, median, skewness, kurtosis, slope and r of the trend, autocorrelations,
/// mean absolute change, KPSS: places in features().
constexpr std::array<std::size_t, kRobustFeatures> kUsedFeatures{0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
constexpr std::array<bool, kRobustFeatures> kIsLevel{true, false, true, true, true};
constexpr std::size_t kDailyFeatures = 2;  // mean and standard deviation say how much the time of day explains

constexpr std::size_t kEvidence = 3;
constexpr std::size_t kExplaining = 5;
constexpr double kNormalMad = 1.4826;
constexpr double kNormalRange = 3.29;  // q95 - q5 of a standard normal
constexpr double kNormalMeanDeviation = 1.2533;
constexpr double kMinOfDeviation = 1e-3;
constexpr std::size_t kMaxGramChannels = 4000;
constexpr double kCorePercentile = 90;
constexpr double kRobustVarianceKept = 0.9;
constexpr Eigen::Index kMaxComponents = 40;
constexpr std::size_t kMostKept = 16'000'000;  // features of all channels and windows: 64 MB

bool is_looked_at(const Channel& channel, std::span<const double> values) {
  if (channel.subsystem == Subsystem::self || channel.kind == Kind::state) return false;
  // Constant, a gap aside, says nothing.
  const auto first = std::find_if(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
  return std::any_of(first, values.end(), [&](double v) { return std::isfinite(v) && v != *first; });
}

/// g of one channel after the other.
class RobustChannel {
 public:
  RobustChannel(Baseline baseline, std::size_t windows, double windows_per_day)
      : baseline_(baseline), windows_(windows), g_(kRobustFeatures * windows) {
    if (baseline == Baseline::time_of_day) daily_baseline_.emplace(windows, windows_per_day);
  }

  /// `features`: [feature][window] as ChannelFeatures leaves them. False if none of them varies.
  bool compute(std::span<const double> features) {
    bool varies = false;
    for (std::size_t f = 0; f < kRobustFeatures; ++f) {
      varies |= fill(features.subspan(kUsedFeatures[f] * windows_, windows_),
                     std::span(g_).subspan(f * windows_, windows_), f);
    }
    return varies;
  }

  [[nodiscard]] std::span<const float> g() const { return g_; }
  [[nodiscard]] std::span<const float> g(std::size_t feature) const {
    return std::span(g_).subspan(feature * windows_, windows_);
  }
  /// The share that the time of day explains, for each channel and each of the first kDailyFeatures so far.
  [[nodiscard]] const std::vector<double>& explained() const { return explained_; }

 private:
  /// g of one feature; false if it does not vary.
  bool fill(std::span<const double> values, std::span<float> g, std::size_t f) {
    deviation_.assign(values.begin(), values.end());
    present_.clear();
    std::copy_if(values.begin(), values.end(), std::back_inserter(present_), [](double v) { return std::isfinite(v); });
    std::fill(g.begin(), g.end(), 0.0F);
    if (present_.empty()) return false;
    RobustScale scale = robust_scale(present_);
    if (!(scale.scale > 0)) return false;
    // What was not measured is as ordinary as can be.
    for (double& v : deviation_) v = std::isfinite(v) ? v - scale.centre : 0;
    if (baseline_ == Baseline::time_of_day) {
      const DailyBaseline::Fit fit = daily_baseline_->take_off(deviation_);
      if (f < kDailyFeatures) explained_.push_back(fit.explained);
      present_ = deviation_;
      scale = robust_scale(present_);
      if (!(scale.scale > 0)) return false;
      for (double& v : deviation_) v -= scale.centre;
    }
    for (std::size_t w = 0; w < g.size(); ++w) {
      const double z = deviation_[w] / scale.scale;
      g[w] = static_cast<float>(std::copysign(std::log1p(std::abs(z)), z));
    }
    return true;
  }

  Baseline baseline_;
  std::size_t windows_;
  std::optional<DailyBaseline> daily_baseline_;
  std::vector<float> g_;
  std::vector<double> deviation_, present_, explained_;
};

/// Collects one view, one channel after the other.
class View {
 public:
  View(Baseline baseline, const WindowGrid& grid, double windows_per_day, bool keep_features)
      : baseline_(baseline),
        keep_features_(keep_features),
        channel_(baseline, grid.count, windows_per_day),
        levels_(grid.count),
        others_(grid.count) {
    result_.windows = grid.count;
    result_.independent = std::min(1.0, static_cast<double>(grid.stride) / static_cast<double>(grid.length));
  }

  /// `features`: [feature][window] as ChannelFeatures leaves them. Channels come layer by layer.
  void add(std::size_t channel, Layer layer, std::span<const double> features, bool to_gram) {
    if (!channel_.compute(features)) return;
    if (layer != layer_) end_layer();
    layer_ = layer;
    result_.channels.push_back(channel);
    keep_evidence();
    if (keep_features_) {
      result_.features.insert(result_.features.end(), channel_.g().begin(), channel_.g().end());
    }
    for (std::size_t f = 0; to_gram && f < kRobustFeatures; ++f) {
      (kIsLevel[f] ? levels_ : others_).add(channel_.g(f));
    }
  }

  RobustWindows finish() {
    const auto n = static_cast<Eigen::Index>(result_.windows);
    const auto c = static_cast<Eigen::Index>(result_.channels.size());
    result_.evidence = Eigen::Map<const Eigen::MatrixXf>(evidence_.data(), n, c);
    result_.explaining = Eigen::Map<const Eigen::MatrixXf>(explaining_.data(), n, c);
    result_.z = Eigen::Map<const Eigen::MatrixXf>(z_.data(), n, c);
    result_.feature =
        Eigen::Map<const Eigen::Matrix<std::uint8_t, Eigen::Dynamic, Eigen::Dynamic>>(feature_.data(), n, c);
    end_layer();
    if (result_.gram_features == 0) result_.gram = result_.level_gram = Eigen::MatrixXd::Zero(n, n);
    if (!channel_.explained().empty()) result_.explained_by_time_of_day = percentile(channel_.explained(), 50);
    if (baseline_ == Baseline::whole) find_components();
    return std::move(result_);
  }

 private:
  /// One layer's inner products at a time are kept, beside their sum.
  void end_layer() {
    const std::size_t features = levels_.features() + others_.features();
    if (features == 0) return;
    Eigen::MatrixXd levels = levels_.take();
    Eigen::MatrixXd all = levels + others_.take();
    if (baseline_ == Baseline::whole) {
      LayerWindows layer = layer_windows(layer_, all);
      if (layer.rows.cols() > 0) result_.layers.push_back(std::move(layer));
    }
    if (result_.gram_features == 0) {
      result_.level_gram = std::move(levels);
      result_.gram = std::move(all);
    } else {
      result_.level_gram += levels;
      result_.gram += all;
    }
    result_.gram_features += features;
  }

  void keep_evidence() {
    const std::size_t n = result_.windows;
    const std::span<const float> g = channel_.g();
    std::array<float, kRobustFeatures> sizes{};
    for (std::size_t w = 0; w < n; ++w) {
      std::size_t largest = 0;
      for (std::size_t f = 0; f < kRobustFeatures; ++f) {
        sizes[f] = std::abs(g[f * n + w]);
        if (sizes[f] > sizes[largest]) largest = f;
      }
      z_.push_back(std::copysign(std::expm1(sizes[largest]), g[largest * n + w]));
      feature_.push_back(static_cast<std::uint8_t>(kUsedFeatures[largest]));
      std::partial_sort(sizes.begin(), sizes.begin() + kExplaining, sizes.end(), std::greater<>());
      const float three = sizes[0] + sizes[1] + sizes[2];
      evidence_.push_back(three / kEvidence);
      explaining_.push_back((three + sizes[3] + sizes[4]) / kExplaining);
    }
  }

  /// Finds the principal components of the least strange windows; fewer than two such windows have none.
  void find_components() {
    if (result_.gram_features == 0) return;
    std::vector<double> size(result_.windows);
    for (std::size_t w = 0; w < size.size(); ++w) {
      size[w] = result_.gram(static_cast<Eigen::Index>(w), static_cast<Eigen::Index>(w));
    }
    const double limit = percentile(size, kCorePercentile);
    std::vector<Eigen::Index> core;
    for (std::size_t w = 0; w < size.size(); ++w) {
      if (size[w] <= limit) core.push_back(static_cast<Eigen::Index>(w));
    }
    result_.components = principal_components(result_.gram, std::move(core), kMaxComponents);
    double held = 0;
    const PrincipalComponents& pc = result_.components;
    while (result_.kept < pc.variances.size() && held < kRobustVarianceKept * pc.total_variance) {
      held += pc.variances[result_.kept++];
    }
  }

  Baseline baseline_;
  bool keep_features_;
  RobustChannel channel_;
  RobustWindows result_;
  Gram levels_, others_;
  Layer layer_ = Layer::cpu;  // of the channels that are added
  std::vector<float> evidence_, explaining_, z_;
  std::vector<std::uint8_t> feature_;
};

}  // namespace

std::span<const std::size_t> robust_features() {
  return kUsedFeatures;
}

RobustScale robust_scale(std::span<double> values) {
  const std::size_t n = values.size();
  if (n == 0) return {};
  // The value of a rank between two others, with everything below and above it on its side.
  const auto at = [&](double percent, std::size_t from, std::size_t to) {
    const double position = percent / 100 * static_cast<double>(n - 1);
    const auto rank = static_cast<std::size_t>(position);
    const auto begin = values.begin();
    const auto nth = begin + static_cast<std::ptrdiff_t>(rank);
    std::nth_element(begin + static_cast<std::ptrdiff_t>(from), nth, begin + static_cast<std::ptrdiff_t>(to));
    if (position == static_cast<double>(rank)) return *nth;
    const double next = *std::min_element(nth + 1, begin + static_cast<std::ptrdiff_t>(to));
    return *nth + (position - static_cast<double>(rank)) * (next - *nth);
  };
  RobustScale result{.centre = at(50, 0, n)};
  const std::size_t middle = (n - 1) / 2;
  const double low = at(5, 0, std::min(n, middle + 2));
  const double high = at(95, middle, n);
  double sum = 0;
  double squares = 0;
  for (double& v : values) {
    v = std::abs(v - result.centre);
    sum += v;
    squares += v * v;
  }
  result.scale = std::max(kNormalMad * at(50, 0, n), (high - low) / kNormalRange);
  if (result.scale == 0) result.scale = kNormalMeanDeviation * sum / static_cast<double>(n);
  // The deviation around the median bounds the usual one from above; overflown, it says nothing.
  const double deviation = std::sqrt(squares / static_cast<double>(n));
  if (std::isfinite(deviation)) result.scale = std::max(result.scale, kMinOfDeviation * deviation);
  if (!std::isfinite(result.scale)) result.scale = 0;
  return result;
}

void for_each_channel(const Telemetry& telemetry, const WindowGrid& grid, const RobustWindows& windows,
                      const std::function<void(std::size_t index, std::span<const float> g)>& use) {
  ChannelFeatures all(grid);
  RobustChannel channel(Baseline::whole, grid.count, 0);
  std::vector<double> features(kFeatureCount * grid.count);
  const std::size_t kept = kRobustFeatures * grid.count;
  for (std::size_t i = 0; i < windows.channels.size(); ++i) {
    if (!windows.features.empty()) {
      use(i, std::span(windows.features).subspan(i * kept, kept));
      continue;
    }
    all.compute(telemetry.series(windows.channels[i]), features);
    channel.compute(features);
    use(i, channel.g());
  }
}

namespace {

std::vector<std::size_t> looked_at(const Telemetry& telemetry, const WindowGrid& grid) {
  std::vector<std::size_t> channels;
  for (std::size_t c = 0; c < telemetry.channels.size() && grid.count > 0; ++c) {
    const auto covered = telemetry.series(c).subspan(grid.begin, grid.end_sample(grid.count - 1) - grid.begin);
    if (is_looked_at(telemetry.channels[c], covered)) channels.push_back(c);
  }
  const auto layer = [&](std::size_t channel) { return layer_of(telemetry.channels[channel]); };
  std::stable_sort(channels.begin(), channels.end(), [&](std::size_t a, std::size_t b) { return layer(a) < layer(b); });
  return channels;
}

void add_channels(const Telemetry& telemetry, const WindowGrid& grid, const std::vector<std::size_t>& channels,
                  std::span<const std::unique_ptr<View>> views) {
  const std::size_t thinning = channels.size() / kMaxGramChannels + 1;
  ChannelFeatures all(grid);
  std::vector<double> features(kFeatureCount * grid.count);
  for (std::size_t i = 0; i < channels.size(); ++i) {
    all.compute(telemetry.series(channels[i]), features);
    const Layer layer = layer_of(telemetry.channels[channels[i]]);
    for (const auto& view : views) view->add(channels[i], layer, features, i % thinning == 0);
  }
}

}  // namespace

std::vector<RobustWindows> robust_windows(const Telemetry& telemetry, const WindowGrid& grid,
                                          std::span<const Baseline> baselines, double windows_per_day) {
  std::vector<std::unique_ptr<View>> views;
  views.reserve(baselines.size());
  for (const Baseline baseline : baselines) {
    views.push_back(std::make_unique<View>(baseline, grid, windows_per_day, false));
  }
  add_channels(telemetry, grid, looked_at(telemetry, grid), views);
  std::vector<RobustWindows> result;
  result.reserve(views.size());
  for (const auto& view : views) result.push_back(view->finish());
  return result;
}

RobustWindows robust_windows_with_features(const Telemetry& telemetry, const WindowGrid& grid) {
  const std::vector<std::size_t> channels = looked_at(telemetry, grid);
  const bool few = channels.size() * grid.count * kRobustFeatures <= kMostKept;
  const std::unique_ptr<View> views[] = {std::make_unique<View>(Baseline::whole, grid, 0, few)};
  add_channels(telemetry, grid, channels, views);
  return views[0]->finish();
}

}  // namespace reveal
