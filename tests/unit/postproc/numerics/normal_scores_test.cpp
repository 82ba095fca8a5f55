#include "postproc/numerics/normal_scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace reveal::tests::normal_scores_test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Expected {
  std::vector<double> scores;
  RankSummary summary;
};

double quantile(double probability) {
  double low = -10;
  double high = 10;
  while (high - low > 1e-9) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2)) / 2 < probability ? low : high) = middle;
  }
  return low;
}

/// By the definition.
Expected expected(const std::vector<double>& values) {
  std::vector<double> sorted;
  std::copy_if(values.begin(), values.end(), std::back_inserter(sorted), [](double v) { return !std::isnan(v); });
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  Expected result{.scores = std::vector<double>(values.size(), 0.0), .summary = {.present = n, .away_from_median = n}};
  if (n == 0) return result;
  std::vector<double> score_of(n);
  double mean = 0;
  for (std::size_t first = 0; first < n;) {
    const auto last =
        static_cast<std::size_t>(std::upper_bound(sorted.begin(), sorted.end(), sorted[first]) - sorted.begin());
    const double score = quantile((static_cast<double>(first + 1 + last) / 2 - 0.5) / static_cast<double>(n));
    if (sorted[first] == sorted[(n - 1) / 2] && sorted[first] == sorted[n / 2])
      result.summary.away_from_median = n - (last - first);
    mean += score * static_cast<double>(last - first) / static_cast<double>(n);
    std::fill(score_of.begin() + static_cast<std::ptrdiff_t>(first),
              score_of.begin() + static_cast<std::ptrdiff_t>(last), score);
    first = last;
  }
  for (std::size_t t = 0; t < values.size(); ++t) {
    if (std::isnan(values[t])) continue;
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), values[t]) - sorted.begin();
    result.scores[t] = score_of[static_cast<std::size_t>(at)] - mean;
  }
  return result;
}

void expect_by_definition(const std::vector<double>& values, const std::string& kind) {
  SCOPED_TRACE(kind + ", " + std::to_string(values.size()) + " samples");
  const Expected wanted = expected(values);
  std::vector<float> scores(values.size(), 7.0F);
  const RankSummary summary = normal_scores(values, scores);
  EXPECT_EQ(summary.present, wanted.summary.present);
  EXPECT_EQ(summary.away_from_median, wanted.summary.away_from_median);
  double squares = 0;
  for (std::size_t t = 0; t < values.size(); ++t) {
    ASSERT_NEAR(scores[t], wanted.scores[t], 2e-6) << "sample " << t << ": " << values[t];
    squares += static_cast<double>(scores[t]) * scores[t];
  }
  EXPECT_EQ(summary.squares, squares);
}

struct Kind {
  std::string name;
  std::function<double(std::size_t, std::mt19937_64&)> sample;
};

double uniform(std::mt19937_64& engine) {
  return static_cast<double>(engine() >> 11U) * 0x1.0p-53;
}
double normal(std::mt19937_64& engine) {
  return std::normal_distribution<double>()(engine);
}

const std::vector<Kind> kKinds{
    {"few values", [](std::size_t, auto& e) { return static_cast<double>(e() % 5) - 2; }},
    {"tenths", [](std::size_t, auto& e) { return std::round(500 + 30 * normal(e)) / 10; }},
    {"all different", [](std::size_t, auto& e) { return 50 + 7 * normal(e); }},
    {"single precision", [](std::size_t, auto& e) { return static_cast<double>(static_cast<float>(normal(e))); }},
    {"all equal", [](std::size_t, auto&) { return 3.5; }},
    {"mostly zero", [](std::size_t, auto& e) { return e() % 3 != 0 ? 0 : std::round(std::exp(12 + 2 * normal(e))); }},
    {"zeros of both signs",
     [](std::size_t t, auto& e) { return e() % 3 != 0 ? (t % 2 == 0 ? 0.0 : -0.0) : normal(e); }},
    {"another common value later", [](std::size_t t, auto& e) { return t > 700 && e() % 2 == 0 ? 1.25 : normal(e); }},
    {"heavy tails", [](std::size_t, auto& e) { return std::pow(normal(e), 9); }},
    {"pages", [](std::size_t, auto& e) { return 4096 * std::floor(std::exp(5 + 2 * normal(e))); }},
    {"whole in a narrow range", [](std::size_t, auto& e) { return static_cast<double>(e() % 8000) - 4000; }},
    {"whole in a narrow range, but one",
     [](std::size_t t, auto& e) { return t == 900 ? 0.5 : static_cast<double>(e() % 8000); }},
    {"close together, far from the commonest", [](std::size_t t, auto& e) { return t < 300 ? 0 : 1e9 + uniform(e); }},
    {"tiny differences", [](std::size_t, auto& e) { return (uniform(e) - 0.5) * 1e-300; }},
    {"too far apart for a float", [](std::size_t, auto& e) { return normal(e) * 1e40; }},
    {"too far apart to subtract", [](std::size_t, auto& e) { return (2 * uniform(e) - 1) * 1.5e308; }},
    {"infinities", [](std::size_t, auto& e) { return e() % 50 == 0 ? kInf : (e() % 50 == 0 ? -kInf : normal(e)); }},
    {"infinities only", [](std::size_t, auto& e) { return e() % 2 == 0 ? kInf : -kInf; }},
    {"one infinity", [](std::size_t, auto&) { return kInf; }},
};

TEST(NormalScores, FollowTheirDefinition) {
  std::mt19937_64 engine(17);
  for (const Kind& kind : kKinds) {
    for (const std::size_t n : {0U, 1U, 2U, 3U, 4U, 5U, 64U, 65U, 66U, 513U, 3000U}) {
      std::vector<double> values(n);
      for (std::size_t t = 0; t < n; ++t) values[t] = kind.sample(t, engine);
      expect_by_definition(values, kind.name);
      for (std::size_t t = 0; t < n; t += 1 + engine() % 20) values[t] = t % 2 == 0 ? kNaN : -kNaN;
      expect_by_definition(values, kind.name + " or missing");
    }
  }
}

TEST(NormalScores, FollowTheirDefinitionWithMoreRepeatedValuesThanAreLookedUp) {
  std::mt19937_64 engine(23);
  std::vector<double> values(14'000);
  for (double& value : values) value = std::sqrt(static_cast<double>(engine() % 5000));
  expect_by_definition(values, "square roots");
  std::fill(values.begin(), values.end(), kNaN);
  expect_by_definition(values, "missing");
}

TEST(NormalScores, ComeFromTheTableOfTheirLength) {
  std::mt19937_64 engine(29);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t n = 100; n < 112; ++n) {  // more than there are tables
      std::vector<double> values(n);
      for (double& value : values) value = normal(engine);
      expect_by_definition(values, "normal");
    }
  }
}

TEST(NormalScores, AreTheSameInEveryThread) {
  std::mt19937_64 engine(31);
  std::vector<double> values(2000);
  for (double& value : values) value = normal(engine);
  std::vector<float> here(values.size());
  std::vector<float> there(values.size());
  normal_scores(values, here);
  std::thread([&] { normal_scores(values, there); }).join();
  EXPECT_EQ(here, there);
}

}  // namespace
}  // namespace reveal::tests::normal_scores_test
