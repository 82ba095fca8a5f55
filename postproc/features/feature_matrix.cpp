#include "postproc/features/feature_matrix.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "postproc/features/channel_features.h"

namespace reveal {

namespace {

constexpr std::size_t kMinPeriods = 3;

bool same(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

}  // namespace

WindowGrid window_grid(double window_seconds, double stride_seconds, double step_seconds, std::size_t begin,
                       std::size_t samples) {
  const auto steps = [&](double seconds) {
    return static_cast<std::size_t>(std::max<long>(1, std::lround(seconds / step_seconds)));
  };
  WindowGrid grid{.begin = begin, .length = steps(window_seconds), .stride = steps(stride_seconds)};
  if (samples >= grid.length) grid.count = (samples - grid.length) / grid.stride + 1;
  return grid;
}

std::string too_short(std::size_t samples, std::size_t least, double step_seconds) {
  return fmt::format("{:.1f} s were recorded, at least {:.0f} s are needed",
                     static_cast<double>(samples) * step_seconds, static_cast<double>(least) * step_seconds);
}

bool counts_events(const Channel& channel) noexcept {
  return channel.kind == Kind::event;
}

FeatureMatrix feature_matrix(const Telemetry& telemetry, std::span<const std::size_t> channels, const WindowGrid& grid,
                             bool (*is_summed)(const Channel&)) {
  const std::span<const Feature> dynamic = features();
  const std::span<const Feature> events(&event_feature(), 1);
  FeatureMatrix matrix;
  for (const std::size_t channel : channels) {
    for (const Feature& feature : is_summed(telemetry.channels[channel]) ? events : dynamic) {
      matrix.columns.push_back({channel, &feature});
    }
  }
  matrix.values.setConstant(static_cast<Eigen::Index>(grid.count), static_cast<Eigen::Index>(matrix.columns.size()),
                            std::numeric_limits<double>::quiet_NaN());

  Window window;
  ChannelFeatures all(grid);
  Eigen::Index first = 0;
  for (const std::size_t channel : channels) {
    const auto values = telemetry.series(channel);
    if (!is_summed(telemetry.channels[channel])) {
      // Columns of the matrix are contiguous: those of one channel are one block.
      all.compute(values, std::span(matrix.values.col(first).data(), kFeatureCount * grid.count));
      first += static_cast<Eigen::Index>(kFeatureCount);
      continue;
    }
    for (std::size_t w = 0; w < grid.count; ++w) {
      window.assign(values.subspan(grid.first_sample(w), grid.length));
      if (static_cast<double>(window.size()) < (1 - kMaxMissing) * static_cast<double>(grid.length)) continue;
      // Extrapolated to the whole window: a gap is no pause.
      const double parts = static_cast<double>(grid.length) / static_cast<double>(window.size());
      matrix.values(static_cast<Eigen::Index>(w), first) = parts * event_feature().compute(window);
    }
    ++first;
  }
  return matrix;
}

FeatureMatrix standardise(FeatureMatrix matrix) {
  Eigen::Index kept = 0;
  for (Eigen::Index c = 0; c < matrix.values.cols(); ++c) {
    auto column = matrix.values.col(c).array();
    double sum = 0;
    double n = 0;
    for (const double v : column) {
      if (!std::isfinite(v)) continue;
      sum += v;
      n += 1;
    }
    if (n == 0) continue;
    const double mean = sum / n;
    double squares = 0;
    for (double& v : column) {
      v = std::isfinite(v) ? v - mean : 0;
      squares += v * v;
    }
    const double deviation = std::sqrt(squares / n);
    if (deviation <= 1e-12 * std::abs(mean) || deviation == 0) continue;
    matrix.values.col(kept) = column / deviation;
    matrix.columns[static_cast<std::size_t>(kept)] = matrix.columns[static_cast<std::size_t>(c)];
    ++kept;
  }
  matrix.columns.resize(static_cast<std::size_t>(kept));
  matrix.values.conservativeResize(Eigen::NoChange, kept);
  return matrix;
}

std::optional<std::size_t> exact_period(std::span<const double> values) {
  // The prefix function of Knuth, Morris and Pratt: the shortest exact period in linear time.
  const std::size_t n = values.size();
  if (n == 0) return std::nullopt;
  std::vector<std::size_t> border(n);
  for (std::size_t i = 1, k = 0; i < n; ++i) {
    while (k > 0 && !same(values[i], values[k])) k = border[k - 1];
    if (same(values[i], values[k])) ++k;
    border[i] = k;
  }
  const std::size_t period = n - border[n - 1];
  return period * kMinPeriods <= n ? std::optional(period) : std::nullopt;
}

}  // namespace reveal
