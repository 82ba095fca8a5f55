// A scan statistic: the interval for which two rates, one inside and one outside, explain the counts best against one
// rate for all of them. https://doi.org/10.1080/03610929708831995 (Kulldorff, 1997)
#include "postproc/diagnose/count_excursion.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>

namespace reveal {
namespace {

constexpr std::size_t kMostFound = 8;
constexpr std::array kFirstRates = {2.0, 8.0, 32.0, 128.0, 512.0};  // inside, times the mean one
constexpr int kMostRefinements = 8;
constexpr double kLeastEvents = 5;
constexpr double kLeastOutside = 0.5;  // events: a rate of 0 would make a single one outside impossible

struct CountSums {
  double count = 0;
  double exposure = 0;

  [[nodiscard]] double rate() const { return count / exposure; }
};

struct CountSteps {
  std::vector<double> count;
  std::vector<double> exposure;
  std::vector<bool> open;  // in no interval that was found

  [[nodiscard]] CountSums inside(Interval at) const {
    CountSums sums;
    for (std::size_t t = at.begin; t < at.end; ++t) {
      if (!open[t]) continue;
      sums.count += count[t];
      sums.exposure += exposure[t];
    }
    return sums;
  }
  [[nodiscard]] CountSums all() const { return inside({0, count.size()}); }
};

/// The interval that gains most from the rate inside; empty if none gains.
Interval likeliest(const CountSteps& steps, double inside, double outside) {
  const double gain = std::log(inside / outside);
  const double price = inside - outside;
  Interval best;
  double most = 0;
  double running = 0;
  std::size_t begin = 0;
  for (std::size_t t = 0; t < steps.count.size(); ++t) {
    if (running <= 0 || !steps.open[t]) {
      running = 0;
      begin = steps.open[t] ? t : t + 1;
    }
    if (!steps.open[t]) continue;
    running += steps.count[t] * gain - steps.exposure[t] * price;
    if (running <= most) continue;
    most = running;
    best = {begin, t + 1};
  }
  return best;
}

double surprise(double observed, double expected) {
  return observed > 0 ? observed * std::log(observed / expected) : 0;
}

/// The logarithm of the likelihood of two rates against that of one.
double log_ratio(const CountSums& inside, const CountSums& outside) {
  const double outside_count = std::max(0.0, outside.count);
  const double rate = (inside.count + outside_count) / (inside.exposure + outside.exposure);
  return surprise(inside.count, rate * inside.exposure) + surprise(outside_count, rate * outside.exposure);
}

struct CountCandidate {
  Interval at;
  CountSums inside;
  double log_ratio = 0;
};

/// Each refinement is at least as likely as the interval before; the first rates decide which maximum it ends in.
std::optional<CountCandidate> clearest(const CountSteps& steps) {
  const CountSums all = steps.all();
  if (!(all.count >= kLeastEvents) || !(all.exposure > 0)) return std::nullopt;
  std::optional<CountCandidate> best;
  for (const double first : kFirstRates) {
    double inside_rate = first * all.rate();
    double outside_rate = all.rate() / 2;
    Interval last;
    for (int i = 0; i < kMostRefinements; ++i) {
      const Interval at = likeliest(steps, inside_rate, outside_rate);
      if (at.length() == 0 || (at.begin == last.begin && at.end == last.end)) break;
      last = at;
      const CountSums inside = steps.inside(at);
      const CountSums outside{all.count - inside.count, all.exposure - inside.exposure};
      if (!(inside.exposure > 0) || !(outside.exposure > 0)) break;
      inside_rate = inside.rate();
      outside_rate = std::max(outside.count, kLeastOutside) / outside.exposure;
      if (!(inside_rate > outside_rate)) break;
      const double ratio = log_ratio(inside, outside);
      if (inside.count >= kLeastEvents && (!best || ratio > best->log_ratio)) best = {at, inside, ratio};
    }
  }
  return best;
}

/// Clearest first, among the open steps.
std::vector<CountCandidate> candidates_in(CountSteps& steps, double least_ratio) {
  std::vector<CountCandidate> found;
  while (found.size() < kMostFound) {
    const auto next = clearest(steps);
    if (!next || !(next->log_ratio >= least_ratio)) break;
    found.push_back(*next);
    std::fill(steps.open.begin() + static_cast<std::ptrdiff_t>(next->at.begin),
              steps.open.begin() + static_cast<std::ptrdiff_t>(next->at.end), false);
  }
  return found;
}

/// Bursts with pauses between them, where the pause before the first or behind the last one is longer, are one interval
/// against the rest of the run. Against each other, they are several. Empty where it is one.
std::vector<CountCandidate> parts_of(const CountSteps& steps, Interval whole, double least_ratio) {
  const auto part = [whole](const std::vector<double>& values) {
    return std::vector<double>(values.begin() + static_cast<std::ptrdiff_t>(whole.begin),
                               values.begin() + static_cast<std::ptrdiff_t>(whole.end));
  };
  CountSteps inside{part(steps.count), part(steps.exposure), std::vector<bool>(whole.length(), true)};
  auto parts = candidates_in(inside, least_ratio);
  if (parts.size() < 2) return {};
  for (CountCandidate& each : parts) each.at = {whole.begin + each.at.begin, whole.begin + each.at.end};
  return parts;
}

}  // namespace

std::vector<CountExcursion> find_count_excursions(std::span<const double> counts, std::span<const double> exposure,
                                                  double max_chance) {
  const std::size_t samples = std::min(counts.size(), exposure.size());
  CountSteps steps{std::vector<double>(samples), std::vector<double>(samples), std::vector<bool>(samples, true)};
  double places = 0;
  for (std::size_t t = 0; t < samples; ++t) {
    if (std::isnan(counts[t]) || std::isnan(exposure[t])) continue;
    steps.count[t] = counts[t];
    steps.exposure[t] = exposure[t];
    if (exposure[t] > 0) places += 1;
  }
  // An interval chosen beforehand has such a ratio with a probability of at most exp(-ratio) (Chernoff's bound), and
  // there are so many of them.
  const double least_ratio = std::log(places * (places + 1) / 2 / max_chance);
  std::vector<CountCandidate> wholes = candidates_in(steps, least_ratio);
  const CountSums outside = steps.all();
  const double usual = outside.exposure > 0 ? std::max(0.0, outside.rate()) : 0;
  std::vector<CountExcursion> found;
  while (!wholes.empty() && found.size() < kMostFound) {
    const CountCandidate whole = wholes.front();
    wholes.erase(wholes.begin());
    const auto parts = parts_of(steps, whole.at, least_ratio);
    wholes.insert(wholes.begin(), parts.begin(), parts.end());
    if (parts.empty()) found.push_back({whole.at, whole.inside.count, whole.inside.exposure, usual});
  }
  return found;
}

}  // namespace reveal
