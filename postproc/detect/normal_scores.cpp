#include "postproc/detect/normal_scores.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

namespace reveal {

namespace {

/// P. J. Acklam's rational approximation: relative error 1e-9.
double near_quantile(double probability) {
  constexpr double kA[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                           1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr double kB[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02, 6.680131188771972e+01,
                           -1.328068155288572e+01};
  constexpr double kC[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                           -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  constexpr double kD[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00};
  constexpr double kTail = 0.02425;
  const auto tail = [&](double q) {
    return (((((kC[0] * q + kC[1]) * q + kC[2]) * q + kC[3]) * q + kC[4]) * q + kC[5]) /
           ((((kD[0] * q + kD[1]) * q + kD[2]) * q + kD[3]) * q + 1);
  };
  if (probability < kTail) return tail(std::sqrt(-2 * std::log(probability)));
  if (probability > 1 - kTail) return -tail(std::sqrt(-2 * std::log1p(-probability)));
  const double q = probability - 0.5;
  const double r = q * q;
  return (((((kA[0] * r + kA[1]) * r + kA[2]) * r + kA[3]) * r + kA[4]) * r + kA[5]) * q /
         (((((kB[0] * r + kB[1]) * r + kB[2]) * r + kB[3]) * r + kB[4]) * r + 1);
}

}  // namespace

double normal_quantile(double probability) {
  const double x = near_quantile(probability);  // and one Halley step against erfc
  const double error = 0.5 * std::erfc(-x / std::numbers::sqrt2) - probability;
  const double u = error * std::sqrt(2 * std::numbers::pi) * std::exp(x * x / 2);
  return x - u / (1 + x * u / 2);
}

namespace {

/// Mean ranks are multiples of one half: one table serves every series of the same length. Most have one of two
/// lengths, since the change of a gauge lacks its first sample.
const std::vector<double>& quantiles_of_half_ranks(std::size_t n) {
  struct Table {
    std::size_t n = 0;
    std::vector<double> quantiles;
  };
  thread_local std::array<Table, 2> tables;
  if (tables[0].n != n) std::swap(tables[0], tables[1]);
  Table& table = tables[0];
  if (table.n != n) {
    table.n = n;
    table.quantiles.resize(2 * n + 1);
    for (std::size_t twice_rank = 2; twice_rank <= 2 * n; ++twice_rank) {
      table.quantiles[twice_rank] = near_quantile((static_cast<double>(twice_rank) / 2 - 0.5) / static_cast<double>(n));
    }
  }
  return table.quantiles;
}

struct Ranked {
  std::uint64_t key;  // in the order of the values
  std::uint32_t at;
};

std::uint64_t key_of(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value + 0.0);  // -0 becomes 0
  return (bits >> 63U) != 0 ? ~bits : bits | (std::uint64_t{1} << 63U);
}

double value_of(std::uint64_t key) {
  return std::bit_cast<double>((key >> 63U) != 0 ? key & ~(std::uint64_t{1} << 63U) : ~key);
}

/// Least significant digit first. Telemetry is mostly small whole numbers: of the six digits of a double most are equal
/// in all values and are skipped, which makes this ten times faster than std::sort.
void sort_by_key(std::vector<Ranked>& ranked, std::vector<Ranked>& scratch) {
  constexpr unsigned kBits = 11;
  constexpr unsigned kDigits = 6;
  constexpr std::size_t kBuckets = std::size_t{1} << kBits;
  constexpr std::size_t kSmall = 256;
  if (ranked.size() < kSmall) {
    std::sort(ranked.begin(), ranked.end(),
              [](const Ranked& a, const Ranked& b) { return a.key < b.key || (a.key == b.key && a.at < b.at); });
    return;
  }
  thread_local std::array<std::array<std::uint32_t, kBuckets>, kDigits> counts;
  for (auto& digit : counts) digit.fill(0);
  for (const Ranked& r : ranked) {
    for (unsigned d = 0; d < kDigits; ++d) ++counts[d][(r.key >> (d * kBits)) & (kBuckets - 1)];
  }
  scratch.resize(ranked.size());
  for (unsigned d = 0; d < kDigits; ++d) {
    const auto bucket = [&](const Ranked& r) { return (r.key >> (d * kBits)) & (kBuckets - 1); };
    if (counts[d][bucket(ranked.front())] == ranked.size()) continue;
    std::uint32_t begin = 0;
    for (std::uint32_t& count : counts[d]) begin += std::exchange(count, begin);
    for (const Ranked& r : ranked) scratch[counts[d][bucket(r)]++] = r;
    ranked.swap(scratch);
  }
}

}  // namespace

RankSummary normal_scores(std::span<const double> values, std::span<float> scores) {
  thread_local std::vector<Ranked> sorted;
  thread_local std::vector<Ranked> scratch;
  sorted.clear();
  for (std::size_t t = 0; t < values.size(); ++t) {
    if (!std::isnan(values[t])) sorted.push_back({key_of(values[t]), static_cast<std::uint32_t>(t)});
  }
  std::fill(scores.begin(), scores.end(), 0.0F);
  const std::size_t n = sorted.size();
  RankSummary summary{.present = n};
  if (n == 0) return summary;
  sort_by_key(sorted, scratch);

  const double lower = value_of(sorted[(n - 1) / 2].key);
  const double upper = value_of(sorted[n / 2].key);
  const double median = lower == upper ? lower : lower / 2 + upper / 2;
  const std::vector<double>& quantiles = quantiles_of_half_ranks(n);
  double sum = 0;
  for (std::size_t first = 0; first < n;) {
    std::size_t last = first + 1;
    while (last < n && sorted[last].key == sorted[first].key) ++last;
    const double score = quantiles[first + 1 + last];  // twice the mean of the ranks first+1 .. last
    for (std::size_t i = first; i < last; ++i) scores[sorted[i].at] = static_cast<float>(score);
    sum += score * static_cast<double>(last - first);
    if (value_of(sorted[first].key) != median) summary.away_from_median += last - first;
    first = last;
  }
  const auto mean = static_cast<float>(sum / static_cast<double>(n));
  for (const Ranked& r : sorted) scores[r.at] -= mean;
  return summary;
}

}  // namespace reveal
