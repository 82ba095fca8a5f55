#include "postproc/numerics/normal_scores.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "hdf5schema/basics/not_measured.h"
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

/// The quantile of every mean rank of n, each worked out when it is first asked for: most series have few different
/// values. Mean ranks are multiples of one half: one table serves every series of the same length. A block has several
/// lengths, since the change of a gauge lacks its first sample and probes start one after the other.
class Quantiles {
 public:
  explicit Quantiles(std::size_t n) : n_(static_cast<double>(n)), quantiles_(table_of(n)) {}

  double of_twice(std::size_t twice_rank) {
    double& quantile = quantiles_[twice_rank];
    if (std::isnan(quantile)) quantile = normal_quantile((static_cast<double>(twice_rank) / 2 - 0.5) / n_);
    return quantile;
  }

 private:
  struct Table {
    std::size_t n = 0;
    std::vector<double> quantiles;
  };
  static double* table_of(std::size_t n) {
    thread_local std::array<Table, 8> tables;  // the last one asked for comes first
    auto* const found =
        std::find_if(tables.begin(), tables.end() - 1, [n](const Table& table) { return table.n == n; });
    std::rotate(tables.begin(), found, found + 1);
    Table& table = tables.front();
    if (table.n != n) {
      table.n = n;
      table.quantiles.assign(2 * n + 1, kNaN);
    }
    return table.quantiles.data();
  }

  double n_;
  double* quantiles_;
};

/// The samples of a series by value. An item stands for samples of one value and is sorted once for all of them.
struct Items {
  std::vector<double> values;          // two items may have the same; item 0 stands for missing values
  std::vector<std::uint32_t> samples;  // per item
  std::vector<std::uint32_t> of;       // per sample, its item
  std::uint32_t commonest = 0;         // an item with a value

  [[nodiscard]] std::size_t present() const { return of.size() - samples[0]; }
};

class Grouping {
 public:
  Grouping(std::span<const double> values, Items& items) : values_(values), items_(items) {}

  void run() {
    items_.of.resize(values_.size());
    items_.values.assign(1, kNaN);
    const std::size_t known = look_up();
    const auto first = items_.samples.begin() + 1;
    if (first == items_.samples.end()) return;
    items_.commonest = static_cast<std::uint32_t>(std::max_element(first, items_.samples.end()) - first) + 1;
    if (known < values_.size()) keep_one_apart(known);
  }

 private:
  static constexpr unsigned kHeadBits = 14;
  static constexpr std::size_t kHeads = std::size_t{1} << kHeadBits;
  static constexpr std::size_t kMostItems = kHeads / 4;
  static constexpr std::size_t kStep = 256;  // after so many new items each, looks whether values repeat
  using Heads = std::vector<std::uint16_t>;
  using Counts = std::vector<std::array<std::uint32_t, 2>>;  // even and odd samples

  /// The sample t, where -0 is 0. Most series come from main memory, and the processor looks ahead only within a page.
  [[nodiscard]] double value_at(std::size_t t) const {
    constexpr std::size_t kAhead = 512;
    if (t % 8 == 0 && t + kAhead < values_.size()) __builtin_prefetch(&values_[t + kAhead]);
    return values_[t] + 0.0;
  }

  /// Finds the items of samples in a table. Returns how many samples it got through.
  std::size_t look_up() {
    thread_local Heads heads;
    thread_local Counts counts;
    heads.assign(kHeads, 0);
    counts.assign(1, {});
    const std::size_t n = values_.size();
    std::size_t t = 0;
    for (; t < n; ++t) {
      const double value = value_at(t);
      std::uint32_t item = 0;
      if (!std::isnan(value)) {
        std::uint16_t& head = head_of(value, heads);
        if (head == 0) {
          const std::size_t size = items_.values.size();
          if (size % kStep == 0 && !repeat(counts, t)) break;
          head = static_cast<std::uint16_t>(size);
          items_.values.push_back(value);
          counts.push_back({});
        }
        item = head;
      }
      items_.of[t] = item;
      ++counts[item][t % 2];  // apart: neighbours are often equal, and need no wait
    }
    items_.samples.resize(counts.size());
    std::transform(counts.begin(), counts.end(), items_.samples.begin(),
                   [](const auto& count) { return count[0] + count[1]; });
    return t;
  }

  /// Whether the samples that lack the commonest value repeat others often enough; else sorting them is faster.
  static bool repeat(const Counts& counts, std::size_t t) {
    std::uint32_t most = 0;
    for (std::size_t item = 1; item < counts.size(); ++item) most = std::max(most, counts[item][0] + counts[item][1]);
    const std::size_t others = t - counts[0][0] - counts[0][1] - most;
    return counts.size() < kMostItems && counts.size() <= kStep + others / 2;
  }

  /// The place of a value's item in the table, or a free one.
  std::uint16_t& head_of(double value, Heads& heads) const {
    constexpr std::uint64_t kMixing = 0x9E3779B97F4A7C15;
    std::size_t at = std::bit_cast<std::uint64_t>(value) * kMixing >> (64 - kHeadBits);
    while (heads[at] != 0 && items_.values[heads[at]] != value) at = (at + 1) % kHeads;
    return heads[at];
  }

  /// Gives each of the other samples an item of its own, except for the commonest value: many a series is mostly zero.
  void keep_one_apart(std::size_t from) {
    constexpr auto kInfinity = std::bit_cast<std::uint64_t>(std::numeric_limits<double>::infinity());
    const std::uint32_t commonest = items_.commonest;
    const auto common = std::bit_cast<std::uint64_t>(items_.values[commonest]);
    std::size_t size = items_.values.size();
    std::size_t missing = 0;
    items_.values.resize(size + values_.size() - from + 1);
    double* const own_values = items_.values.data();
    std::uint32_t* const of = items_.of.data();
    for (std::size_t t = from; t < values_.size(); ++t) {
      const double value = value_at(t);
      const auto bits = std::bit_cast<std::uint64_t>(value);  // compared without jumps, which nothing could foresee
      const bool is_common = bits == common;
      const bool is_missing = bits << 1U > kInfinity << 1U;
      own_values[size] = value;
      of[t] = is_common ? commonest : (is_missing ? 0 : static_cast<std::uint32_t>(size));
      missing += is_missing ? 1 : 0;
      size += is_common || is_missing ? 0 : 1;
    }
    const std::size_t own = size - items_.samples.size();
    items_.samples[0] += static_cast<std::uint32_t>(missing);
    items_.samples[commonest] += static_cast<std::uint32_t>(values_.size() - from - missing - own);
    items_.samples.resize(size, 1);
    items_.values.resize(size);
  }

  std::span<const double> values_;
  Items& items_;
};

/// Gives scores group by group of equal values, from the least to the largest.
class Scorer {
 public:
  explicit Scorer(std::size_t n) : quantiles_(n), n_(n) {}

  /// The score of the next `size` ranks.
  float next(std::size_t size) {
    const std::size_t last = first_ + size;
    const double score = quantiles_.of_twice(first_ + 1 + last);  // twice the mean of the ranks first + 1 .. last
    sum_ += score * static_cast<double>(size);
    // The median lies in this group, or between it and its neighbour.
    if (first_ <= (n_ - 1) / 2 && n_ / 2 < last) at_median_ = size;
    first_ = last;
    return static_cast<float>(score);
  }
  [[nodiscard]] float mean() const { return static_cast<float>(sum_ / static_cast<double>(n_)); }
  [[nodiscard]] std::size_t away_from_median() const { return n_ - at_median_; }

 private:
  Quantiles quantiles_;
  std::size_t n_;
  std::size_t first_ = 0;
  std::size_t at_median_ = 0;
  double sum_ = 0;
};

constexpr unsigned kDigitBits = 11;
constexpr std::size_t kBuckets = std::size_t{1} << kDigitBits;
constexpr double kFewValues = 8192;   // whole numbers in so narrow a range are counted, not sorted
constexpr std::size_t kFewKeys = 64;  // comparing them is faster than sorting by digits

/// A value as a whole number in the order of the values, with its item.
struct Key {
  std::uint64_t value;
  std::uint32_t item;
};
/// The same in one word, where 32 bits hold all or most of the value.
struct ShortKey {
  std::uint64_t word;  // value in the upper half, item in the lower

  [[nodiscard]] std::uint32_t value() const { return static_cast<std::uint32_t>(word >> 32U); }
  [[nodiscard]] std::uint32_t item() const { return static_cast<std::uint32_t>(word); }
};
std::uint64_t sort_value(const Key& key) {
  return key.value;
}
std::uint64_t sort_value(const ShortKey& key) {
  return key.word >> 32U;
}

/// Least significant digit first; digits that are equal in all values are skipped.
template <class AnyKey>
void sort_by_digits(std::vector<AnyKey>& keys, std::vector<AnyKey>& scratch, unsigned bits) {
  constexpr std::size_t kMostDigits = (64 + kDigitBits - 1) / kDigitBits;
  thread_local std::array<std::array<std::uint32_t, kBuckets>, kMostDigits> counts;
  const std::size_t digits = (bits + kDigitBits - 1) / kDigitBits;
  const auto bucket = [](const AnyKey& key, std::size_t place) {
    return sort_value(key) >> (place * kDigitBits) & (kBuckets - 1);
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

template <class AnyKey>
void sort_keys(std::vector<AnyKey>& keys, std::vector<AnyKey>& scratch, unsigned bits) {
  if (keys.size() > kFewKeys) return sort_by_digits(keys, scratch, bits);
  std::sort(keys.begin(), keys.end(), [](const AnyKey& a, const AnyKey& b) { return sort_value(a) < sort_value(b); });
}

std::uint64_t ordered(double value) {
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63U;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

struct Range {
  double least = INFINITY;
  double most = -INFINITY;
  double step = INFINITY;  // least distance from `centre` that is not 0
};

REVEAL_WIDE Range range_of(const double* values, std::size_t n, double centre) {
  Wide least = Wide{} + INFINITY;
  Wide most = Wide{} - INFINITY;
  Wide step = least;
  std::size_t i = 0;
  for (; i + kWide <= n; i += kWide) {
    const Wide v = *reinterpret_cast<const Wide*>(values + i);
    const Wide distance = v < centre ? centre - v : v - centre;
    least = v < least ? v : least;
    most = v > most ? v : most;
    step = v != centre && distance < step ? distance : step;
  }
  Range range;
  const auto add = [&](double low, double high, double distance) {
    range.least = std::min(range.least, low);
    range.most = std::max(range.most, high);
    if (distance > 0) range.step = std::min(range.step, distance);
  };
  for (unsigned lane = 0; lane < kWide; ++lane) add(least[lane], most[lane], step[lane]);
  for (; i < n; ++i) add(values[i], values[i], std::abs(values[i] - centre));
  return range;
}

bool all_whole(std::span<const double> values) {
  constexpr double kExact = 0x1p53;
  return std::all_of(values.begin(), values.end(), [](double value) {
    return std::abs(value) < kExact && static_cast<double>(static_cast<std::int64_t>(value)) == value;
  });
}

/// Finds the score of every item.
class ItemScores {
 public:
  ItemScores(const Items& items, std::vector<float>& scores)
      : items_(items), values_(std::span(items.values).subspan(1)), scores_(scores), scorer_(items.present()) {}

  void run() {
    scores_.assign(items_.values.size(), 0);
    const double centre = items_.values[items_.commonest];
    const Range range = range_of(values_.data(), values_.size(), centre);
    const double span = range.most - range.least;  // may be infinite
    if (span < kFewValues && all_whole(values_)) {
      count(range.least, static_cast<std::size_t>(span) + 1);
    } else if (span <= static_cast<double>(std::numeric_limits<float>::max())) {
      sort_by_distance(centre, range);
    } else {
      sort_by_value();
    }
    const float mean = scorer_.mean();
    for (std::size_t item = 1; item < scores_.size(); ++item) scores_[item] -= mean;
  }
  [[nodiscard]] std::size_t away_from_median() const { return scorer_.away_from_median(); }

 private:
  void count(double least, std::size_t kinds) {
    thread_local std::vector<std::uint32_t> samples;
    thread_local std::vector<float> score_of;
    samples.assign(kinds, 0);
    score_of.resize(kinds);
    const auto kind = [least](double value) { return static_cast<std::uint32_t>(value - least); };
    for (std::size_t i = 0; i < values_.size(); ++i) samples[kind(values_[i])] += items_.samples[i + 1];
    for (std::size_t k = 0; k < kinds; ++k) {
      if (samples[k] > 0) score_of[k] = scorer_.next(samples[k]);
    }
    for (std::size_t i = 0; i < values_.size(); ++i) scores_[i + 1] = score_of[kind(values_[i])];
  }

  /// Sorted by the distance from the commonest value in single precision, which never changes the order of two, and
  /// where that is equal, by themselves.
  void sort_by_distance(double centre, const Range& range) {
    thread_local std::vector<ShortKey> keys;
    thread_local std::vector<ShortKey> scratch;
    sort_keys(keys, scratch, fill(keys, centre, range));
    score_groups(keys);
  }

  /// Leaves two digits of the distances, counted from the least that is not 0. Single precision is finest around the
  /// commonest value, where most others are: few that differ have equal digits. Returns the bits used.
  unsigned fill(std::vector<ShortKey>& keys, double centre, const Range& range) const {
    const std::uint32_t low = std::max(1U, std::bit_cast<std::uint32_t>(static_cast<float>(range.step))) - 1;
    const auto place = [low, centre](double value) {
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value - centre));
      const std::uint32_t distance = bits & INT32_MAX;
      const std::uint32_t steps = distance > low ? distance - low : 0;
      const std::uint32_t sign = 0 - (bits >> 31U);
      return (steps ^ sign) - sign;  // no jump: half of the values lie below
    };
    const std::uint32_t least = place(range.least);
    const auto bits = static_cast<unsigned>(std::bit_width(place(range.most) - least));
    const unsigned drop = bits > 2 * kDigitBits ? bits - 2 * kDigitBits : 0;
    const std::size_t n = values_.size();
    keys.resize(n);
    ShortKey* const to = keys.data();
    for (std::size_t i = 0; i < n; ++i)
      to[i].word = std::uint64_t{(place(values_[i]) - least) >> drop} << 32U | (i + 1);
    return bits - drop;
  }

  void score_groups(std::span<const ShortKey> keys) {
    for (auto first = keys.begin(); first != keys.end();) {
      auto last = first + 1;
      std::size_t samples = items_.samples[first->item()];
      bool equal = true;
      for (; last != keys.end() && last->value() == first->value(); ++last) {
        samples += items_.samples[last->item()];
        equal = equal && items_.values[last->item()] == items_.values[first->item()];
      }
      if (!equal) {
        sort_by_value({first, last});
        first = last;
        continue;
      }
      const float score = scorer_.next(samples);
      for (; first != last; ++first) scores_[first->item()] = score;
    }
  }

  void sort_by_value(std::span<const ShortKey> group) {
    thread_local std::vector<Key> keys;
    keys.clear();
    for (const ShortKey key : group) keys.push_back({ordered(items_.values[key.item()]), key.item()});
    score_sorted(keys);
  }

  /// Infinities, and values too far apart for a difference.
  void sort_by_value() {
    thread_local std::vector<Key> keys;
    keys.clear();
    for (std::uint32_t item = 1; item < items_.values.size(); ++item)
      keys.push_back({ordered(items_.values[item]), item});
    score_sorted(keys);
  }

  void score_sorted(std::vector<Key>& keys) {
    thread_local std::vector<Key> scratch;
    sort_keys(keys, scratch, 64);
    for (std::size_t first = 0; first < keys.size();) {
      std::size_t last = first;
      std::size_t samples = 0;
      for (; last < keys.size() && keys[first].value == keys[last].value; ++last)
        samples += items_.samples[keys[last].item];
      const float score = scorer_.next(samples);
      for (; first < last; ++first) scores_[keys[first].item] = score;
    }
  }

  const Items& items_;
  std::span<const double> values_;  // per item, from 1 on
  std::vector<float>& scores_;
  Scorer scorer_;
};

/// Returns the sum of the squares.
double write_scores(const Items& items, const std::vector<float>& score_of, std::span<float> scores) {
  double squares = 0;
  for (std::size_t t = 0; t < scores.size(); ++t) {
    const float score = score_of[items.of[t]];
    scores[t] = score;
    squares += static_cast<double>(score) * score;
  }
  return squares;
}

}  // namespace

RankSummary normal_scores(std::span<const double> values, std::span<float> scores) {
  thread_local Items items;
  thread_local std::vector<float> score_of;
  Grouping(values, items).run();
  if (items.present() == 0) {
    std::fill(scores.begin(), scores.end(), 0.0F);
    return {};
  }
  ItemScores ranking(items, score_of);
  ranking.run();
  return {.present = items.present(),
          .away_from_median = ranking.away_from_median(),
          .squares = write_scores(items, score_of, scores)};
}

}  // namespace reveal
