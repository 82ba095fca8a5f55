#include "postproc/detect/windows/daily_baseline.h"

#include <algorithm>
#include <cmath>

#include "postproc/numerics/percentile.h"

namespace reveal {

namespace {

constexpr double kMinDays = 4;
constexpr double kMinWindowsPerDay = 8;
constexpr std::ptrdiff_t kNeighbours = 2;  // windows before and after the same time of day
constexpr double kShares[] = {0.25, 0.5, 0.75, 1};
constexpr double kWorthIt = 0.98;       // a larger share must leave less than this part of the former rest
constexpr double kClipPercentile = 95;  // an event must not become part of the usual course of a day

}  // namespace

DailyBaseline::DailyBaseline(std::size_t windows, double windows_per_day) : usual_(windows) {
  const auto days = static_cast<std::ptrdiff_t>(std::ceil(static_cast<double>(windows) / windows_per_day));
  for (std::ptrdiff_t day = -days; day <= days; ++day) {
    const auto same_time = static_cast<std::ptrdiff_t>(std::lround(static_cast<double>(day) * windows_per_day));
    for (std::ptrdiff_t near = -kNeighbours; near <= kNeighbours && day != 0; ++near) {
      offsets_.push_back(same_time + near);
    }
  }
}

bool DailyBaseline::applies(std::size_t windows, double windows_per_day) {
  return windows_per_day >= kMinWindowsPerDay && static_cast<double>(windows) >= kMinDays * windows_per_day;
}

DailyBaseline::Fit DailyBaseline::take_off(std::span<double> deviation) {
  const auto n = static_cast<std::ptrdiff_t>(deviation.size());
  for (std::ptrdiff_t w = 0; w < n; ++w) {
    others_.clear();
    for (const std::ptrdiff_t offset : offsets_) {
      if (w + offset >= 0 && w + offset < n) others_.push_back(deviation[static_cast<std::size_t>(w + offset)]);
    }
    const auto middle = others_.begin() + static_cast<std::ptrdiff_t>(others_.size() / 2);
    std::nth_element(others_.begin(), middle, others_.end());
    double usual = *middle;
    if (others_.size() % 2 == 0) usual = (usual + *std::max_element(others_.begin(), middle)) / 2;
    usual_[static_cast<std::size_t>(w)] = usual;
  }

  std::vector<double> sizes(deviation.size());
  std::transform(deviation.begin(), deviation.end(), sizes.begin(), [](double v) { return std::abs(v); });
  const double clip = percentile(sizes, kClipPercentile);
  const auto left = [&](double share) {
    double sum = 0;
    for (std::size_t w = 0; w < deviation.size(); ++w) {
      const double size = std::abs(deviation[w] - share * usual_[w]);
      sum += clip > 0 ? std::min(size, clip) : size;
    }
    return sum;
  };
  const double before = left(0);
  double least = before;
  Fit fit;
  for (const double share : kShares) {
    const double rest = left(share);
    if (rest >= kWorthIt * least) continue;
    least = rest;
    fit.share = share;
  }
  if (before > 0) fit.explained = 1 - (least / before) * (least / before);
  for (std::size_t w = 0; w < deviation.size(); ++w) deviation[w] -= fit.share * usual_[w];
  return fit;
}

}  // namespace reveal
