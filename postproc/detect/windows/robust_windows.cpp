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
#include "postproc/numerics/median.h"
#include "postproc/numerics/percentile.h"
#include "postproc/numerics/present_values.h"
#include "postproc/numerics/signed_log.h"
#include "postproc/numerics/simd.h"

namespace reveal {

namespace {

/// mean, standard deviation, minimum, maximum, median, skewness, kurtosis, slope and r of the trend, autocorrelations,
/// mean absolute change, KPSS: places in features().
constexpr std::array<std::size_t, kRobustFeatures> kUsedFeatures{0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
static_assert(kUsedFeatures.back() == 13, "without the unit root test, which is left out");
constexpr std::array<bool, kRobustFeatures> kIsLevel{true, false, true, true, true};
constexpr std::size_t kDailyFeatures = 2;  // mean and standard deviation show how much the time of day explains

constexpr std::size_t kEvidence = 3;
constexpr std::size_t kExplaining = 5;
constexpr double kNormalRange = 3.29;  // q95 - q5 of a standard normal
constexpr double kMinOfDeviation = 1e-3;
constexpr std::size_t kMaxGramChannels = 4000;
constexpr double kCorePercentile = 90;
constexpr double kRobustVarianceKept = 0.9;
constexpr Eigen::Index kMaxComponents = 40;
constexpr std::size_t kMostKept = 16'000'000;  // features of all channels and windows: 64 MB

bool is_looked_at(const Channel& channel, std::span<const double> values) {
  if (channel.subsystem == Subsystem::self || channel.kind == Kind::state) return false;
  // A series that is constant apart from gaps carries no information.
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
    present_.assign(values.begin(), values.end());
    const PresentValues all = present_values(values);
    if (all.present < values.size() || !std::isfinite(all.low) || !std::isfinite(all.high)) {
      std::erase_if(present_, [](double v) { return !std::isfinite(v); });
    }
    std::fill(g.begin(), g.end(), 0.0F);
    if (present_.empty()) return false;
    RobustScale scale = robust_scale(present_);
    if (!(scale.scale > 0)) return false;
    // A missing value counts as perfectly ordinary.
    for (double& v : deviation_) v = std::isfinite(v) ? v - scale.centre : 0;
    if (baseline_ == Baseline::time_of_day) {
      const DailyBaseline::Fit fit = daily_baseline_->take_off(deviation_);
      if (f < kDailyFeatures) explained_.push_back(fit.explained);
      present_ = deviation_;
      scale = robust_scale(present_);
      if (!(scale.scale > 0)) return false;
      for (double& v : deviation_) v -= scale.centre;
    }
    signed_log(deviation_, scale.scale, g);
    return true;
  }

  Baseline baseline_;
  std::size_t windows_;
  std::optional<DailyBaseline> daily_baseline_;
  std::vector<float> g_;
  std::vector<double> deviation_, present_, explained_;
};

constexpr std::size_t kAtOnce = 8;  // windows side by side
REVEAL_VECTOR(EightSizes, float, 32);

/// The largest sizes of g of a few windows, the largest one first, and the first feature that has it.
struct LargestSizes {
  std::array<std::array<float, kAtOnce>, kExplaining> sizes;
  std::array<float, kAtOnce> feature;
};

/// `g`: of the first window, [feature][window] with `stride` windows.
REVEAL_WIDE LargestSizes largest_sizes(const float* g, std::size_t stride, std::size_t count) {
  EightSizes sizes[kExplaining];
  for (EightSizes& size : sizes) size = EightSizes{} - 1.0F;  // less than any
  EightSizes feature{};
  float few[kAtOnce]{};
  for (std::size_t f = 0; f < kRobustFeatures; ++f) {
    const float* of_windows = g + f * stride;
    if (count < kAtOnce) {
      for (std::size_t i = 0; i < count; ++i) few[i] = of_windows[i];
      of_windows = few;
    }
    const EightSizes value = *reinterpret_cast<const EightSizes*>(of_windows);
    const EightSizes zero{};
    EightSizes size = (value < zero ? -value : value) + 0.0F;  // no -0
    feature = size > sizes[0] ? EightSizes{} + static_cast<float>(f) : feature;
    for (EightSizes& kept : sizes) {
      const EightSizes larger = kept < size ? size : kept;
      size = kept < size ? kept : size;
      kept = larger;
    }
  }
  LargestSizes all{};
  for (std::size_t i = 0; i < kAtOnce; ++i) {
    for (std::size_t rank = 0; rank < kExplaining; ++rank) all.sizes[rank][i] = sizes[rank][i];
    all.feature[i] = feature[i];
  }
  return all;
}

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
    for (std::size_t first = 0; first < n; first += kAtOnce) {
      const std::size_t count = std::min(kAtOnce, n - first);
      const LargestSizes largest = largest_sizes(g.data() + first, n, count);
      for (std::size_t i = 0; i < count; ++i) {
        const auto feature = static_cast<std::size_t>(largest.feature[i]);
        const auto size = [&](std::size_t rank) { return largest.sizes[rank][i]; };
        z_.push_back(std::copysign(std::expm1(size(0)), g[feature * n + first + i]));
        feature_.push_back(static_cast<std::uint8_t>(kUsedFeatures[feature]));
        const float three = size(0) + size(1) + size(2);
        evidence_.push_back(three / kEvidence);
        explaining_.push_back((three + size(3) + size(4)) / kExplaining);
      }
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
  Layer layer_ = Layer::cpu;  // layer of the channels that are added
  std::vector<float> evidence_, explaining_, z_;
  std::vector<std::uint8_t> feature_;
};

}  // namespace

std::span<const std::size_t> robust_features() {
  return kUsedFeatures;
}

namespace {

/// Values by rank: they are put into ranges of equal width, and only the range of a rank is searched.
class Ranks {
 public:
  /// At least one, and only numbers.
  explicit Ranks(std::span<const double> values) : sorted_(values.size()) {
    const PresentValues all = present_values(values);
    const double factor = (kRanges - 1) / (all.high - all.low);
    const bool apart = std::isfinite(factor) && factor > 0;  // else they are equal, or too far apart for a difference
    std::vector<std::uint8_t> ranges(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (apart) ranges[i] = static_cast<std::uint8_t>((values[i] - all.low) * factor);
      ++begins_[ranges[i] + std::size_t{1}];
    }
    for (std::size_t range = 1; range < begins_.size(); ++range) begins_[range] += begins_[range - 1];
    std::array<std::uint32_t, kRanges> next{};
    std::copy_n(begins_.begin(), kRanges, next.begin());
    for (std::size_t i = 0; i < values.size(); ++i) sorted_[next[ranges[i]]++] = values[i];
  }

  /// The value at a percentage of the ranks, which may lie between two values.
  [[nodiscard]] double at(double percent) {
    const double position = percent / 100 * static_cast<double>(sorted_.size() - 1);
    const auto rank = static_cast<std::size_t>(position);
    const double value = of_rank(rank);
    if (position == static_cast<double>(rank)) return value;
    return value + (position - static_cast<double>(rank)) * (of_rank(rank + 1) - value);
  }

 private:
  static constexpr std::size_t kRanges = 64;

  [[nodiscard]] double of_rank(std::size_t rank) {
    const auto behind = std::upper_bound(begins_.begin(), begins_.end(), rank);
    const auto place = sorted_.begin() + static_cast<std::ptrdiff_t>(rank);
    std::nth_element(sorted_.begin() + *(behind - 1), place, sorted_.begin() + *behind);
    return *place;
  }

  std::array<std::uint32_t, kRanges + 1> begins_{};
  std::vector<double> sorted_;  // range by range
};

}  // namespace

RobustScale robust_scale(std::span<double> values) {
  if (values.empty()) return {};
  const auto n = static_cast<double>(values.size());
  Ranks ranks(values);
  RobustScale result{.centre = ranks.at(50)};
  const double range = ranks.at(95) - ranks.at(5);
  double sum = 0;
  double squares = 0;
  for (double& v : values) {
    v = std::abs(v - result.centre);
    sum += v;
    squares += v * v;
  }
  result.scale = std::max(kSpreadOverMad * Ranks(values).at(50), range / kNormalRange);
  if (result.scale == 0) result.scale = kSpreadOverMeanDeviation * sum / n;
  // The deviation around the median bounds the usual one from above; if it overflows, it is useless.
  const double deviation = std::sqrt(squares / n);
  if (std::isfinite(deviation)) result.scale = std::max(result.scale, kMinOfDeviation * deviation);
  if (!std::isfinite(result.scale)) result.scale = 0;
  return result;
}

void for_each_channel(const Telemetry& telemetry, const WindowGrid& grid, const RobustWindows& windows,
                      const std::function<void(std::size_t index, std::span<const float> g)>& use) {
  ChannelFeatures all(grid, UnitRootTest::left_out);
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
  ChannelFeatures all(grid, UnitRootTest::left_out);
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
