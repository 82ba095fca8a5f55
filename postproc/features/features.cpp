#include "postproc/features/features.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

#include "hdf5schema/basics/not_measured.h"

namespace reveal {

namespace {

double moment_sum(const Window& w, int power) {
  double sum = 0;
  for (const double d : w.centered()) sum += power == 3 ? d * d * d : d * d * d * d;
  return sum;
}

/// Bias-corrected G1, as pandas and tsfresh; scipy's default is the biased g1.
double skewness(const Window& w) {
  const auto n = static_cast<double>(w.size());
  if (n < 3) return kNaN;
  if (w.constant()) return 0;
  const double g1 = moment_sum(w, 3) / n / std::pow(w.variance(), 1.5);
  return g1 * std::sqrt(n * (n - 1)) / (n - 2);
}

/// Bias-corrected excess G2.
double kurtosis(const Window& w) {
  const auto n = static_cast<double>(w.size());
  if (n < 4) return kNaN;
  if (w.constant()) return 0;
  const double g2 = moment_sum(w, 4) / n / (w.variance() * w.variance()) - 3;
  return (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * g2 + 6);
}

struct Trend {
  double covariance;  // sum of centred products of time and value
  double times;       // sum of centred squares of time
};

Trend trend_of(const Window& w) {
  const auto n = static_cast<double>(w.size());
  double covariance = 0;
  for (std::size_t t = 0; t < w.size(); ++t) covariance += (static_cast<double>(t) - (n - 1) / 2) * w.centered()[t];
  return {covariance, n * (n * n - 1) / 12};
}

double trend_slope(const Window& w) {
  if (w.size() < 2) return kNaN;
  const Trend trend = trend_of(w);
  return trend.covariance / trend.times;
}

double trend_r(const Window& w) {
  if (w.size() < 2) return kNaN;
  if (w.constant()) return 0;
  const Trend trend = trend_of(w);
  return trend.covariance / std::sqrt(trend.times * w.squares());
}

/// tsfresh divides by n - lag; statsmodels' acf by n.
double autocorrelation(const Window& w, std::size_t lag) {
  if (w.size() <= lag || w.constant()) return kNaN;
  return w.lagged_product(lag) / (static_cast<double>(w.size() - lag) * w.variance());
}

double mean_abs_change(const Window& w) {
  if (w.size() < 2) return kNaN;
  double sum = 0;
  for (std::size_t t = 1; t < w.size(); ++t) sum += std::abs(w.values()[t] - w.values()[t - 1]);
  return sum / static_cast<double>(w.size() - 1);
}

/// Level stationarity with Bartlett weights up to lag 4.
double kpss(const Window& w) {
  constexpr std::size_t kLags = 4;
  if (w.size() <= kLags || w.constant()) return kNaN;
  double partial = 0;
  double squares = 0;
  for (const double d : w.centered()) {
    partial += d;
    squares += partial * partial;
  }
  double long_run = w.squares();
  for (std::size_t lag = 1; lag <= kLags; ++lag) {
    long_run += 2 * (1 - static_cast<double>(lag) / (kLags + 1)) * w.lagged_product(lag);
  }
  return squares / (static_cast<double>(w.size()) * long_run);
}

/// t of b in dx[t] = a + b x[t-1] + c dx[t-1]: the two regressors centred, their 2 x 2 normal equations in closed form.
double adf(const Window& w) {
  if (w.size() < 7 || w.constant()) return kNaN;
  const auto x = w.centered();
  const std::size_t n = x.size();
  const auto m = static_cast<double>(n - 2);
  const double mean_y = (x[n - 1] - x[1]) / m;
  const double mean_c = (x[n - 2] - x[0]) / m;
  const double mean_b = std::accumulate(x.begin() + 1, x.end() - 1, 0.0) / m;
  double bb = 0;
  double cc = 0;
  double bc = 0;
  double by = 0;
  double cy = 0;
  double yy = 0;
  for (std::size_t t = 2; t < n; ++t) {
    const double y = x[t] - x[t - 1] - mean_y;
    const double b = x[t - 1] - mean_b;
    const double c = x[t - 1] - x[t - 2] - mean_c;
    bb += b * b;
    cc += c * c;
    bc += b * c;
    by += b * y;
    cy += c * y;
    yy += y * y;
  }
  const double determinant = bb * cc - bc * bc;
  if (determinant <= 1e-12 * bb * cc) return kNaN;
  const double beta = (by * cc - cy * bc) / determinant;
  const double gamma = (cy * bb - by * bc) / determinant;
  const double residual = yy - beta * by - gamma * cy;
  if (residual <= 1e-12 * yy) return kNaN;
  return beta / std::sqrt(residual / (m - 3) * cc / determinant);
}

double adf_p(const Window& w) {
  return adf_p_value(adf(w));
}

constexpr std::array<Feature, kFeatureCount> kFeatures{{
    {"mean", "tsfresh.mean", [](const Window& w) { return w.mean(); }},
    {"standard_deviation", "tsfresh.standard_deviation", [](const Window& w) { return std::sqrt(w.variance()); }},
    {"variance", "tsfresh.variance", [](const Window& w) { return w.variance(); }},
    {"minimum", "tsfresh.minimum", [](const Window& w) { return w.minimum(); }},
    {"maximum", "tsfresh.maximum", [](const Window& w) { return w.maximum(); }},
    {"median", "tsfresh.median", [](const Window& w) { return w.median(); }},
    {"skewness", "tsfresh.skewness", skewness},
    {"kurtosis", "tsfresh.kurtosis", kurtosis},
    {"linear_trend_slope", "tsfresh.linear_trend(attr=slope)", trend_slope},
    {"linear_trend_r", "tsfresh.linear_trend(attr=rvalue)", trend_r},
    {"autocorrelation_lag_1", "tsfresh.autocorrelation(lag=1)", [](const Window& w) { return autocorrelation(w, 1); }},
    {"autocorrelation_lag_5", "tsfresh.autocorrelation(lag=5)", [](const Window& w) { return autocorrelation(w, 5); }},
    {"mean_abs_change", "tsfresh.mean_abs_change", mean_abs_change},
    {"kpss_lag_4", "statsmodels.kpss(regression=c, nlags=4), statistic", kpss},
    {"adf_lag_1", "statsmodels.adfuller(maxlag=1, autolag=None), statistic", adf},
    {"adf_lag_1_p", "statsmodels.adfuller(maxlag=1, autolag=None), p", adf_p},
}};

constexpr Feature kEvents{"sum", "tsfresh.sum_values",
                          [](const Window& w) { return std::accumulate(w.values().begin(), w.values().end(), 0.0); }};

}  // namespace

// MacKinnon (1994), one series, constant only: the normal probability of a polynomial in the statistic.
double adf_p_value(double statistic) {
  const double t = statistic;
  if (std::isnan(t)) return kNaN;
  if (t > 2.74) return 1;
  if (t < -18.83) return 0;
  const double u =
      t <= -1.61 ? 2.1659 + t * (1.4412 + t * 0.038269) : 1.7339 + t * (0.93202 + t * (-0.12745 + t * -0.010368));
  return 0.5 * std::erfc(-u / std::numbers::sqrt2);
}

void Window::assign(std::span<const double> values) {
  values_.clear();
  std::copy_if(values.begin(), values.end(), std::back_inserter(values_), [](double v) { return !std::isnan(v); });
  centered_.assign(values_.begin(), values_.end());
  mean_ = minimum_ = maximum_ = squares_ = values_.empty() ? kNaN : 0;
  if (values_.empty()) return;

  const auto n = static_cast<double>(values_.size());
  const auto [low, high] = std::minmax_element(values_.begin(), values_.end());
  minimum_ = *low;
  maximum_ = *high;
  if (constant()) {
    mean_ = minimum_;
    std::fill(centered_.begin(), centered_.end(), 0.0);
    return;
  }
  // The mean from the distances to the first value: exact where the values are large and close together.
  double distance = 0;
  for (const double v : values_) distance += v - values_[0];
  mean_ = values_[0] + distance / n;
  for (std::size_t t = 0; t < values_.size(); ++t) {
    centered_[t] = values_[t] - values_[0] - distance / n;
    squares_ += centered_[t] * centered_[t];
  }
}

double Window::median() const {
  if (values_.empty() || constant()) return minimum_;
  scratch_ = values_;
  const std::size_t n = scratch_.size();
  const auto middle = scratch_.begin() + static_cast<std::ptrdiff_t>(n / 2);
  std::nth_element(scratch_.begin(), middle, scratch_.end());
  if (n % 2 == 1) return *middle;
  return (*std::max_element(scratch_.begin(), middle) + *middle) / 2;
}

double Window::lagged_product(std::size_t lag) const {
  double sum = 0;
  for (std::size_t t = 0; t + lag < centered_.size(); ++t) sum += centered_[t] * centered_[t + lag];
  return sum;
}

std::span<const Feature> features() {
  return kFeatures;
}

const Feature& event_feature() {
  return kEvents;
}

}  // namespace reveal
