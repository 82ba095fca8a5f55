#include "postproc/numerics/normal_scores.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "postproc/numerics/simd.h"

namespace reveal {

namespace {

// P. J. Acklam's rational approximation of the quantile: relative error 1e-9.
constexpr double kA[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                         1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
constexpr double kB[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02, 6.680131188771972e+01,
                         -1.328068155288572e+01};
constexpr double kC[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                         -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
constexpr double kD[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00};
constexpr double kTail = 0.02425;

double tail_quantile(double probability) {
  const double q = std::sqrt(-2 * std::log(probability));
  return (((((kC[0] * q + kC[1]) * q + kC[2]) * q + kC[3]) * q + kC[4]) * q + kC[5]) /
         ((((kD[0] * q + kD[1]) * q + kD[2]) * q + kD[3]) * q + 1);
}

double normal_quantile(double probability) {
  if (probability < kTail) return tail_quantile(probability);
  if (probability > 1 - kTail) return -tail_quantile(1 - probability);
  const double q = probability - 0.5;
  const double r = q * q;
  return (((((kA[0] * r + kA[1]) * r + kA[2]) * r + kA[3]) * r + kA[4]) * r + kA[5]) * q /
         (((((kB[0] * r + kB[1]) * r + kB[2]) * r + kB[3]) * r + kB[4]) * r + 1);
}

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
      table.quantiles[twice_rank] =
          normal_quantile((static_cast<double>(twice_rank) / 2 - 0.5) / static_cast<double>(n));
    }
  }
  return table.quantiles;
}

constexpr unsigned kDigitBits = 11;
constexpr std::size_t kBuckets = std::size_t{1} << kDigitBits;
constexpr double kFewValues = 8192;  // whole numbers in so narrow a range are counted, not sorted

/// A sample's value as a whole number in the order of the values, with its place.
struct Key {
  std::uint64_t value;
  std::uint32_t at;
};
/// The same in one word where 32 bits are enough: jiffies, events, bytes per tick.
struct ShortKey {
  std::uint64_t word;  // value in the upper half, place in the lower
};
std::uint64_t digit(const Key& key, unsigned shift) {
  return key.value >> shift;
}
std::uint64_t digit(const ShortKey& key, unsigned shift) {
  return key.word >> (32 + shift);
}

/// Least significant digit first; digits that are equal in all values are skipped.
template <class AnyKey>
void sort_by_digits(std::vector<AnyKey>& keys, std::vector<AnyKey>& scratch, unsigned bits) {
  constexpr std::size_t kMostDigits = (64 + kDigitBits - 1) / kDigitBits;
  thread_local std::array<std::array<std::uint32_t, kBuckets>, kMostDigits> counts;
  const std::size_t digits = (bits + kDigitBits - 1) / kDigitBits;
  const auto bucket = [](const AnyKey& key, std::size_t place) {
    return digit(key, static_cast<unsigned>(place) * kDigitBits) & (kBuckets - 1);
  };
  for (std::size_t place = 0; place < digits; ++place) counts[place].fill(0);
  for (const AnyKey& key : keys) {
    for (std::size_t place = 0; place < digits; ++place) ++counts[place][bucket(key, place)];
  }
  scratch.resize(keys.size());
  for (std::size_t place = 0; place < digits; ++place) {
    auto& mine = counts[place];
    if (mine[bucket(keys.front(), place)] == keys.size()) continue;
    std::uint32_t begin = 0;
    for (std::uint32_t& count : mine) begin += std::exchange(count, begin);
    for (const AnyKey& key : keys) scratch[mine[bucket(key, place)]++] = key;
    keys.swap(scratch);
  }
}

template <class Bits, class Float>
Bits ordered(Float value) {
  constexpr Bits kSign = Bits{1} << (sizeof(Bits) * 8 - 1);
  const auto bits = std::bit_cast<Bits>(value + Float{0});  // -0 becomes 0
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

struct Range {
  std::size_t present = 0;
  double least = INFINITY;
  double most = -INFINITY;
  bool whole = true;   // all values are whole numbers
  bool floats = true;  // all are single precision
};

void add_to_range(std::span<const double> values, Range& range) {
  for (const double value : values) {
    if (std::isnan(value)) continue;
    ++range.present;
    range.least = std::min(range.least, value);
    range.most = std::max(range.most, value);
    range.whole = range.whole && value == std::floor(value);
    range.floats = range.floats && static_cast<double>(static_cast<float>(value)) == value;
  }
}

REVEAL_VECTOR(FourFlags, std::int64_t, 32);
REVEAL_VECTOR(FourMarks, std::int32_t, 16);
REVEAL_VECTOR(FourFloats, float, 16);

/// Below kLarge, adding and subtracting kRounding leaves the nearest whole number.
constexpr double kRounding = 0x1.8p52;
constexpr double kLarge = 0x1p51;

REVEAL_WIDE Range range_of_small(const double* values, std::size_t n) {
  Wide least = Wide{} + INFINITY;
  Wide most = Wide{} - INFINITY;
  FourFlags missing{};
  FourFlags fractions{};
  FourFlags doubles{};
  std::size_t t = 0;
  for (; t + kWide <= n; t += kWide) {
    const Wide v = *reinterpret_cast<const Wide*>(values + t);
    const FourFlags is_present = v == v;  // NOLINT(misc-redundant-expression): NaN is not
    missing += is_present + 1;
    least = v < least ? v : least;
    most = v > most ? v : most;
    fractions |= is_present & (v + kRounding - kRounding != v);
    doubles |= is_present & (__builtin_convertvector(__builtin_convertvector(v, FourFloats), Wide) != v);
  }
  Range range{.present = t};
  for (unsigned lane = 0; lane < kWide; ++lane) {
    range.present -= static_cast<std::size_t>(missing[lane]);
    range.least = std::min(range.least, least[lane]);
    range.most = std::max(range.most, most[lane]);
    range.whole = range.whole && fractions[lane] == 0;
    range.floats = range.floats && doubles[lane] == 0;
  }
  add_to_range({values + t, n - t}, range);
  return range;
}

Range range_of(std::span<const double> values) {
  Range range = range_of_small(values.data(), values.size());
  if (range.present == 0 || (range.least > -kLarge && range.most < kLarge)) return range;
  range = {};
  add_to_range(values, range);
  return range;
}

REVEAL_WIDE void subtract_where_present(const double* values, std::size_t n, float mean, float* scores) {
  std::size_t t = 0;
  for (; t + kWide <= n; t += kWide) {
    const Wide v = *reinterpret_cast<const Wide*>(values + t);
    FourFloats& four = *reinterpret_cast<FourFloats*>(scores + t);
    const FourFlags is_present = v == v;  // NOLINT(misc-redundant-expression): NaN is not
    four = __builtin_convertvector(is_present, FourMarks) ? four - mean : four;
  }
  for (; t < n; ++t) {
    if (!std::isnan(values[t])) scores[t] -= mean;
  }
}

/// Fills scores group by group of equal values, from the least to the largest.
class Scorer {
 public:
  Scorer(std::size_t n, std::span<float> scores) : quantiles_(quantiles_of_half_ranks(n)), n_(n), scores_(scores) {}

  /// The score of the next `size` ranks.
  float next(std::size_t size) {
    const std::size_t last = first_ + size;
    const double score = quantiles_[first_ + 1 + last];  // twice the mean of the ranks first + 1 .. last
    sum_ += score * static_cast<double>(size);
    // The median lies in this group, or between it and its neighbour.
    if (first_ <= (n_ - 1) / 2 && n_ / 2 < last) at_median_ = size;
    first_ = last;
    return static_cast<float>(score);
  }
  template <class AnyKey, class Same, class At>
  void score(const std::vector<AnyKey>& sorted, const Same& same, const At& at) {
    for (std::size_t first = 0; first < sorted.size();) {
      std::size_t last = first + 1;
      while (last < sorted.size() && same(sorted[first], sorted[last])) ++last;
      const float score = next(last - first);
      for (std::size_t i = first; i < last; ++i) scores_[at(sorted[i])] = score;
      first = last;
    }
  }
  [[nodiscard]] float mean() const { return static_cast<float>(sum_ / static_cast<double>(n_)); }
  [[nodiscard]] std::size_t away_from_median() const { return n_ - at_median_; }

 private:
  const std::vector<double>& quantiles_;
  std::size_t n_;
  std::span<float> scores_;
  std::size_t first_ = 0;
  std::size_t at_median_ = 0;
  double sum_ = 0;
};

void score_counted(std::span<const double> values, const Range& range, Scorer& scorer, std::span<float> scores) {
  thread_local std::vector<std::uint32_t> counts;
  thread_local std::vector<float> score_of;
  thread_local std::vector<std::uint16_t> keys;
  const auto kinds = static_cast<std::size_t>(range.most - range.least) + 1;
  const std::size_t both = kinds + 1;  // the last one counts missing values
  counts.assign(2 * both, 0);          // even and odd places apart: neighbours are often equal, and need no wait
  score_of.assign(both, 0);
  keys.resize(values.size());
  for (std::size_t t = 0; t < values.size(); ++t) {
    const bool missing = std::isnan(values[t]);
    const std::size_t key = missing ? kinds : static_cast<std::uint32_t>(values[t] - range.least);
    keys[t] = static_cast<std::uint16_t>(key);
    ++counts[key + (t % 2) * both];
  }
  for (std::size_t key = 0; key < kinds; ++key) {
    const std::size_t count = counts[key] + counts[key + both];
    if (count > 0) score_of[key] = scorer.next(count);
  }
  for (std::size_t t = 0; t < values.size(); ++t) scores[t] = score_of[keys[t]];
}

template <class KeyOf>
void score_short(std::span<const double> values, Scorer& scorer, const KeyOf& key_of) {
  thread_local std::vector<ShortKey> keys;
  thread_local std::vector<ShortKey> scratch;
  keys.clear();
  std::uint64_t used = 0;
  for (std::size_t t = 0; t < values.size(); ++t) {
    if (std::isnan(values[t])) continue;
    const std::uint32_t key = key_of(values[t]);
    used |= key;
    keys.push_back({std::uint64_t{key} << 32U | static_cast<std::uint32_t>(t)});
  }
  sort_by_digits(keys, scratch, static_cast<unsigned>(std::bit_width(used)));
  scorer.score(
      keys, [](const ShortKey& a, const ShortKey& b) { return a.word >> 32U == b.word >> 32U; },
      [](const ShortKey& key) { return static_cast<std::uint32_t>(key.word); });
}

/// Any finite values: sorted by their distance from the least in single precision, which never changes the order of
/// two, and where that is equal, by themselves.
void score_fractions(std::span<const double> values, double least, Scorer& scorer) {
  thread_local std::vector<ShortKey> keys;
  thread_local std::vector<ShortKey> scratch;
  keys.clear();
  std::uint32_t used = 0;
  for (std::size_t t = 0; t < values.size(); ++t) {
    if (std::isnan(values[t])) continue;
    const auto key = std::bit_cast<std::uint32_t>(static_cast<float>(values[t] - least) + 0.0F);
    used |= key;
    keys.push_back({std::uint64_t{key} << 32U | static_cast<std::uint32_t>(t)});
  }
  sort_by_digits(keys, scratch, static_cast<unsigned>(std::bit_width(used)));
  const auto value = [&](const ShortKey& key) { return values[static_cast<std::uint32_t>(key.word)]; };
  for (auto first = keys.begin(); first != keys.end();) {
    auto last = first + 1;
    bool sorted = true;
    for (; last != keys.end() && first->word >> 32U == last->word >> 32U; ++last) {
      sorted = sorted && !(value(*last) < value(*(last - 1)));
    }
    if (!sorted) std::sort(first, last, [&](const ShortKey& a, const ShortKey& b) { return value(a) < value(b); });
    first = last;
  }
  scorer.score(
      keys, [&](const ShortKey& a, const ShortKey& b) { return value(a) == value(b); },
      [](const ShortKey& key) { return static_cast<std::uint32_t>(key.word); });
}

/// Infinities, and values too far apart for a difference.
void score_long(std::span<const double> values, Scorer& scorer) {
  thread_local std::vector<Key> keys;
  thread_local std::vector<Key> scratch;
  keys.clear();
  for (std::size_t t = 0; t < values.size(); ++t) {
    if (!std::isnan(values[t])) keys.push_back({ordered<std::uint64_t>(values[t]), static_cast<std::uint32_t>(t)});
  }
  sort_by_digits(keys, scratch, 64);
  scorer.score(
      keys, [](const Key& a, const Key& b) { return a.value == b.value; }, [](const Key& key) { return key.at; });
}

}  // namespace

RankSummary normal_scores(std::span<const double> values, std::span<float> scores) {
  std::fill(scores.begin(), scores.end(), 0.0F);
  const Range range = range_of(values);
  if (range.present == 0) return {};
  Scorer scorer(range.present, scores);
  constexpr double kExact = 0x1p53;
  const double span = range.most - range.least;  // may be infinite
  const bool whole = range.whole && range.least > -kExact && range.most < kExact;
  if (whole && span < kFewValues) {
    score_counted(values, range, scorer, scores);
  } else if (whole && span < 0x1p32) {
    score_short(values, scorer, [&](double value) { return static_cast<std::uint32_t>(value - range.least); });
  } else if (range.floats) {
    const auto least = ordered<std::uint32_t>(static_cast<float>(range.least));
    score_short(values, scorer,
                [&](double value) { return ordered<std::uint32_t>(static_cast<float>(value)) - least; });
  } else if (span <= static_cast<double>(std::numeric_limits<float>::max())) {
    score_fractions(values, range.least, scorer);
  } else {
    score_long(values, scorer);
  }
  subtract_where_present(values.data(), values.size(), scorer.mean(), scores.data());
  return {.present = range.present, .away_from_median = scorer.away_from_median()};
}

}  // namespace reveal
