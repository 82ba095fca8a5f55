// Features against results of tsfresh and statsmodels for the same windows (tests/data/golden).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "postproc/features/features.h"

namespace reveal::tests::feature_golden_test {
namespace {

struct Golden {
  std::string_view feature;
  std::string_view row;  // in features.csv
  double tolerance;      // relative to the larger of 1 and the value
};

// Tolerances: rounding of sums over 30 values; moments and the least squares of tests lose a few digits more.
constexpr Golden kGolden[] = {
    {"mean", "mean", 1e-13},
    {"standard_deviation", "standard_deviation", 1e-12},
    {"variance", "variance", 1e-12},
    {"minimum", "minimum", 0},
    {"maximum", "maximum", 0},
    {"median", "median", 1e-15},
    {"skewness", "skewness", 1e-11},
    {"kurtosis", "kurtosis", 1e-11},
    {"linear_trend_slope", "\"trend_attr_\"\"slope\"\"\"", 1e-10},
    {"linear_trend_r", "\"trend_attr_\"\"rvalue\"\"\"", 1e-10},
    {"autocorrelation_lag_1", "autocorr_1", 1e-12},
    {"autocorrelation_lag_5", "autocorr_5", 1e-12},
    {"mean_abs_change", "mean_abs_change", 1e-13},
    {"kpss_lag_4", "kpss4_stat", 1e-10},
    {"adf_lag_1", "adf_lag1_stat", 1e-8},
    {"adf_lag_1_p", "adf_lag1_p", 1e-8},
    {"sum", "sum_values", 1e-13},
};

std::map<std::string, std::vector<double>> read_series() {
  std::map<std::string, std::vector<double>> series;
  std::ifstream in(TEST_DATA "/golden/series.csv");
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::string name;
    std::string value;
    std::getline(fields, name, ',');
    while (std::getline(fields, value, ',')) series[name].push_back(std::stod(value));
  }
  return series;
}

std::map<std::string, double> read_values(const std::string& file) {
  std::map<std::string, double> values;
  std::ifstream in(std::string(TEST_DATA "/golden/") + file);
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    const std::size_t comma = line.rfind(',');
    const std::string value = line.substr(comma + 1);
    if (value.find_first_not_of("0123456789.e+-nainf") == std::string::npos)
      values[line.substr(0, comma)] = std::stod(value);
  }
  return values;
}

void compare(const Feature& feature) {
  const Golden* golden = nullptr;
  for (const Golden& row : kGolden) {
    if (row.feature == feature.name) golden = &row;
  }
  ASSERT_NE(golden, nullptr) << "feature \"" << feature.name << "\" has no golden values of " << feature.reference;

  const auto expected = read_values("features.csv");
  const auto corrected = read_values("large.csv");  // the references' own sums lose digits around 1e9
  Window window;
  int compared = 0;
  for (const auto& [name, values] : read_series()) {
    std::string key = name;
    key.append(",").append(golden->row);
    ASSERT_TRUE(expected.contains(key)) << key;
    const double want = corrected.contains(key) ? corrected.at(key) : expected.at(key);
    window.assign(values);
    const double got = feature.compute(window);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << feature.name << " of " << name << " is " << got;
    } else {
      EXPECT_NEAR(got, want, golden->tolerance * std::max(1.0, std::abs(want))) << feature.name << " of " << name;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 9);
}

TEST(FeatureGolden, EveryFeatureEqualsItsReference) {
  for (const Feature& feature : features()) compare(feature);
}

TEST(FeatureGolden, EventsAreSummed) {
  compare(event_feature());
}

TEST(FeatureWindow, LeavesMissingValuesOut) {
  Window window;
  const double nan = std::nan("");
  window.assign(std::vector<double>{nan, 1, 2, nan, 6});
  EXPECT_EQ(window.size(), 3U);
  EXPECT_DOUBLE_EQ(window.mean(), 3);
  EXPECT_DOUBLE_EQ(window.median(), 2);
  EXPECT_DOUBLE_EQ(window.maximum(), 6);
}

TEST(FeatureWindow, OfNothingIsUnknownInEveryFeature) {
  Window window;
  window.assign(std::vector<double>(30, std::nan("")));
  for (const Feature& feature : features()) EXPECT_TRUE(std::isnan(feature.compute(window))) << feature.name;
}

TEST(FeatureWindow, OfOneOrTwoValuesInventsNoMoments) {
  Window window;
  window.assign(std::vector<double>{4.0});
  EXPECT_DOUBLE_EQ(window.variance(), 0);
  for (const Feature& feature : features()) {
    const std::string_view name = feature.name;
    if (name == "skewness" || name == "kurtosis" || name == "linear_trend_slope" || name == "adf_lag_1") {
      EXPECT_TRUE(std::isnan(feature.compute(window))) << name;
    }
  }
}

}  // namespace
}  // namespace reveal::tests::feature_golden_test
