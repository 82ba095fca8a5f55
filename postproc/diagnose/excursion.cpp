#include "postproc/diagnose/excursion.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>

#include "hdf5schema/basics/not_measured.h"
#include "postproc/numerics/median.h"
#include "postproc/numerics/percentile.h"

namespace reveal {
namespace {

constexpr int kRefinements = 4;
constexpr std::size_t kMostCandidates = 24;
/// So many similar intervals are a recurring pattern (a phase of the job, a cron job every few seconds), not an event.
constexpr std::size_t kRecurring = 4;
constexpr double kAlikeExcess = 0.5;  // least share of the other's excess
constexpr std::size_t kAlikeLength = 3;
/// At least this part of the series must be at a level that is taken as usual although most of the series is above it.
constexpr double kLeastUsual = 0.35;
/// The usual level is never taken below this: a physical bound of the quantities.
constexpr double kLowestUsual = 0;
/// The settling around a candidate belongs neither to it nor to the usual level.
constexpr double kMarginOfLength = 0.1;

struct Sum {
  Interval at;
  double sum = 0;
};

/// The interval with the largest sum of sign x (value - cut) inside `range`; missing samples count nothing.
Sum largest_sum(std::span<const double> series, Interval range, double cut, double sign = 1) {
  Sum best;
  double running = 0;
  std::size_t begin = range.begin;
  for (std::size_t t = range.begin; t < range.end; ++t) {
    if (running <= 0) {
      running = 0;
      begin = t;
    }
    if (!std::isnan(series[t])) running += sign * (series[t] - cut);
    if (running > best.sum) best = {{begin, t + 1}, running};
  }
  return best;
}

/// Ends at half height are the most likely ones of a box in white noise, whatever its height.
Interval sharpen(std::span<const double> series, Interval at, Interval range, double usual) {
  for (int i = 0; i < kRefinements; ++i) {
    const double height = mean_inside(series, at) - usual;
    const std::size_t reach = at.length();
    const Interval near{std::max(range.begin, at.begin - std::min(at.begin, reach)),
                        std::min(range.end, at.end + reach)};
    const Interval next = largest_sum(series, near, usual + height / 2).at;
    if (next.length() == 0 || (next.begin == at.begin && next.end == at.end)) break;
    at = next;
  }
  return at;
}

/// A stretch inside `at` that is back at the usual level: two events, not one.
Interval dip_inside(std::span<const double> series, Interval at, double usual, const ExcursionSearch& search) {
  const double height = mean_inside(series, at) - usual;
  const Interval dip = largest_sum(series, at, usual + height / 2, -1).at;
  if (dip.length() < search.min_length || mean_inside(series, dip) > usual + height / 4) return {};
  return dip;
}

/// The most promising range first, so that kMostCandidates cuts the smallest ones and not the latest.
std::vector<Interval> collect(std::span<const double> series, double usual, const ExcursionSearch& search) {
  struct Range {
    Interval at;
    Sum seed;
    bool operator<(const Range& other) const { return seed.sum < other.seed.sum; }
  };
  std::priority_queue<Range> open;
  const auto offer = [&](Interval range) {
    if (range.length() < search.min_length) return;
    const Sum seed = largest_sum(series, range, usual + search.min_excess / 2);
    // An interval just worth reporting sums to at least this.
    if (seed.sum >= search.min_excess / 2 * static_cast<double>(search.min_length) / 2) open.push({range, seed});
  };
  std::vector<Interval> found;
  offer({0, series.size()});
  while (!open.empty() && found.size() < kMostCandidates) {
    const auto [range, seed] = open.top();
    open.pop();
    const Interval at = sharpen(series, seed.at, range, usual);
    Interval taken = dip_inside(series, seed.at, usual, search);
    if (taken.length() == 0) taken = dip_inside(series, at, usual, search);
    if (taken.length() == 0) {
      found.push_back(at);
      // The whole excursion, not only its core, else the shoulders come back as candidates of their own.
      taken = {std::min(at.begin, seed.at.begin), std::max(at.end, seed.at.end)};
    } else {
      offer(taken);  // between two high ones there may be a lower one
    }
    offer({range.begin, taken.begin});
    offer({taken.end, range.end});
  }
  return found;
}

bool alike_in_length(Interval a, Interval b) {
  return a.length() <= kAlikeLength * b.length() && b.length() <= kAlikeLength * a.length();
}

std::vector<Interval> with_margins(std::span<const Interval> intervals, std::size_t samples) {
  std::vector<Interval> wide;
  for (const Interval& at : intervals) {
    const auto margin = static_cast<std::size_t>(static_cast<double>(at.length()) * kMarginOfLength) + 1;
    wide.push_back(widened(at, margin, samples));
  }
  return wide;
}

/// The excess in standard deviations of the means, of which there are at least two.
double score_of(double excess, const std::vector<double>& means, const ExcursionSearch& search) {
  double squares = 0;
  double mean = 0;
  for (const double value : means) mean += value;
  mean /= static_cast<double>(means.size());
  for (const double value : means) squares += (value - mean) * (value - mean);
  const double spread = std::sqrt(squares / static_cast<double>(means.size() - 1));
  // A part of the smallest excess is the least spread: a perfectly quiet outside would make every score infinite.
  return excess / std::max(spread, search.min_excess / 20);
}

/// The place between two levels that explain most of the series, each at least so long; 0 if there is none.
std::size_t split_of(std::span<const double> series, std::size_t least) {
  double all = 0;
  double present = 0;
  for (const double value : series) {
    if (std::isnan(value)) continue;
    all += value;
    present += 1;
  }
  std::size_t best = 0;
  double most = 0;
  double sum = 0;
  double count = 0;
  for (std::size_t t = 0; t + least < series.size(); ++t) {
    if (t >= least && count > 0 && count < present) {
      const double apart = (all - sum) / (present - count) - sum / count;
      const double explained = count * (present - count) * apart * apart;
      if (apart > 0 && explained > most) {
        most = explained;
        best = t;
      }
    }
    if (std::isnan(series[t])) continue;
    sum += series[t];
    count += 1;
  }
  return best;
}

std::vector<Excursion> excursions_above(std::span<const double> series, double usual, const ExcursionSearch& search) {
  std::vector<Interval> candidates = collect(series, usual, search);
  const double left_out = std::isnan(search.left_out) ? search.min_excess : search.left_out;
  std::erase_if(candidates, [&](const Interval& at) {
    return at.length() < search.min_length || !(mean_inside(series, at) - usual >= left_out);
  });

  const std::vector<Interval> excluded = with_margins(candidates, series.size());
  const double outside = mean_outside(series, excluded);
  std::map<std::size_t, std::vector<double>> means_of;  // by their length, which most candidates share
  std::vector<Excursion> found;
  for (const Interval& at : candidates) {
    const std::size_t length = std::min(at.length(), search.window);
    const auto [known, fresh] = means_of.try_emplace(length);
    if (fresh) known->second = reference_means(series, excluded, length);
    const std::vector<double>& means = known->second;
    Excursion excursion{.at = at, .inside = mean_inside(series, at)};
    excursion.outside = std::isnan(outside) ? usual : std::max(outside, kLowestUsual);
    const double excess = excursion.inside - excursion.outside;
    if (excess < search.min_excess) continue;
    if (means.size() > 1) {
      excursion.score = score_of(excess, means, search);
      excursion.beyond = excursion.inside > means.back();
    }
    if (excursion.score < search.min_score) continue;
    const auto alike = [&](const Interval& other) {
      return alike_in_length(at, other) && mean_inside(series, other) - excursion.outside >= kAlikeExcess * excess;
    };
    const auto count = std::count_if(candidates.begin(), candidates.end(), alike);  // itself is one of them
    excursion.recurring = static_cast<std::size_t>(count) >= kRecurring;
    found.push_back(excursion);
  }
  std::sort(found.begin(), found.end(), [](const Excursion& a, const Excursion& b) {
    return (a.inside - a.outside) * static_cast<double>(a.at.length()) >
           (b.inside - b.outside) * static_cast<double>(b.at.length());
  });
  return found;
}

/// Whether `count` samples next to it, on the side to which `step` leads, are below the limit, others' own left out.
bool is_low_beside(std::span<const double> series, const std::vector<Excursion>& found, std::size_t from,
                   std::ptrdiff_t step, std::size_t count, double limit) {
  double sum = 0;
  std::size_t present = 0;
  for (auto t = static_cast<std::ptrdiff_t>(from); t >= 0 && t < std::ssize(series) && present < count; t += step) {
    const auto place = static_cast<std::size_t>(t);
    const auto inside = [place](const Excursion& each) { return place >= each.at.begin && place < each.at.end; };
    if (std::isnan(series[place]) || std::any_of(found.begin(), found.end(), inside)) continue;
    sum += series[place];
    ++present;
  }
  return present == count && sum < limit * static_cast<double>(count);
}

/// Per sample: it has a value, and is in none of the intervals.
std::vector<bool> usable_outside(std::span<const double> series, std::span<const Interval> excluded) {
  std::vector<bool> usable(series.size());
  for (std::size_t t = 0; t < series.size(); ++t) usable[t] = !std::isnan(series[t]);
  for (const Interval& at : excluded) {
    const std::size_t end = std::min(at.end, series.size());
    for (std::size_t t = at.begin; t < end; ++t) usable[t] = false;
  }
  return usable;
}

/// Means of short windows, since one sample of a jiffy counter is too coarse.
std::vector<double> short_means(std::span<const double> series, const ExcursionSearch& search) {
  return window_means(series, {}, std::max<std::size_t>(1, search.window / 5));
}

}  // namespace

std::size_t overlap(Interval a, Interval b) {
  const std::size_t begin = std::max(a.begin, b.begin);
  const std::size_t end = std::min(a.end, b.end);
  return end > begin ? end - begin : 0;
}

Interval widened(Interval at, std::size_t margin, std::size_t samples) {
  return {at.begin - std::min(at.begin, margin), std::min(samples, at.end + margin)};
}

double mean_inside(std::span<const double> series, Interval interval) {
  double sum = 0;
  std::size_t present = 0;
  for (std::size_t t = interval.begin; t < std::min(interval.end, series.size()); ++t) {
    if (std::isnan(series[t])) continue;
    sum += series[t];
    ++present;
  }
  return present > 0 ? sum / static_cast<double>(present) : kNaN;
}

double mean_outside(std::span<const double> series, std::span<const Interval> excluded) {
  const std::vector<bool> usable = usable_outside(series, excluded);
  double sum = 0;
  std::size_t present = 0;
  for (std::size_t t = 0; t < series.size(); ++t) {
    if (!usable[t]) continue;
    sum += series[t];
    ++present;
  }
  return present > 0 ? sum / static_cast<double>(present) : kNaN;
}

std::vector<double> window_means(std::span<const double> series, std::span<const Interval> excluded,
                                 std::size_t length) {
  std::vector<double> means;
  if (length == 0 || series.size() < length) return means;
  const std::vector<bool> usable = usable_outside(series, excluded);
  std::vector<double> sum(series.size() + 1, 0.0);
  std::vector<std::size_t> present(series.size() + 1, 0);
  for (std::size_t t = 0; t < series.size(); ++t) {
    sum[t + 1] = sum[t] + (usable[t] ? series[t] : 0);
    present[t + 1] = present[t] + (usable[t] ? 1 : 0);
  }
  const std::size_t enough = (length * 4 + 4) / 5;
  means.reserve(series.size() - length + 1);
  for (std::size_t t = 0; t + length <= series.size(); ++t) {
    const std::size_t samples = present[t + length] - present[t];
    if (samples >= enough) means.push_back((sum[t + length] - sum[t]) / static_cast<double>(samples));
  }
  return means;
}

std::vector<double> reference_means(std::span<const double> series, std::span<const Interval> excluded,
                                    std::size_t length) {
  std::vector<double> means = window_means(series, excluded, length);
  std::sort(means.begin(), means.end());
  return means;
}

std::vector<Excursion> find_excursions(std::span<const double> series, const ExcursionSearch& search) {
  std::vector<double> means = short_means(series, search);
  if (means.empty()) return {};
  return excursions_above(series, std::max(upper_median<double>(means), kLowestUsual), search);
}

std::vector<Excursion> find_lasting_excursions(std::span<const double> series, const ExcursionSearch& search) {
  std::vector<double> means = short_means(series, search);
  if (means.empty()) return {};
  const double low = std::max(
      ranked<double>(means, static_cast<std::size_t>(kLeastUsual * static_cast<double>(means.size()))), kLowestUsual);
  if (upper_median<double>(means) - low < search.min_excess) return {};
  std::vector<Excursion> found = excursions_above(series, low, search);
  std::size_t length = 0;
  for (Excursion& each : found) {
    const double limit = low + search.min_excess / 2;
    if (each.recurring || !is_low_beside(series, found, each.at.begin, -1, search.window, limit) ||
        !is_low_beside(series, found, each.at.end, 1, search.window, limit)) {
      return {};
    }
    length += each.at.length();
    each.most = true;
  }
  if (2 * length <= series.size()) return {};
  return found;
}

std::optional<Excursion> find_rise(std::span<const double> series, const ExcursionSearch& search) {
  constexpr double kLeastBefore = 0.1;  // share of the series
  const auto samples = static_cast<double>(series.size());
  const std::size_t least = std::max(2 * search.window, static_cast<std::size_t>(kLeastBefore * samples));
  const std::size_t rise = split_of(series, least);
  if (rise == 0 || 2 * rise >= series.size()) return std::nullopt;
  const Interval before{0, rise};
  const Interval after{rise, series.size()};
  Excursion found{
      .at = after, .inside = mean_inside(series, after), .outside = mean_inside(series, before), .most = true};
  const double excess = found.inside - found.outside;
  if (!(excess >= search.min_excess)) return std::nullopt;
  const std::vector<double> low = reference_means(series, {{after}}, search.window);
  const std::vector<double> high = reference_means(series, {{before}}, search.window);
  const double middle = found.outside + excess / 2;
  if (low.size() < 2 || high.empty() || low.back() >= middle || high.front() <= middle) return std::nullopt;
  found.score = score_of(excess, low, search);
  found.beyond = true;
  return found.score >= search.min_score ? std::optional(found) : std::nullopt;
}

std::vector<Interval> places(std::span<const Excursion> excursions) {
  std::vector<Interval> all;
  all.reserve(excursions.size());
  for (const Excursion& excursion : excursions) all.push_back(excursion.at);
  return all;
}

}  // namespace reveal
