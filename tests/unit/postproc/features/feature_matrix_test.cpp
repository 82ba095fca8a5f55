#include "postproc/features/feature_matrix.h"

#include <gtest/gtest.h>

#include <cmath>

namespace reveal::tests::feature_matrix_test {
namespace {

Telemetry telemetry(std::vector<std::vector<double>> rows, Kind kind = Kind::gauge) {
  Telemetry t;
  t.samples = rows.front().size();
  for (std::size_t c = 0; c < rows.size(); ++c) {
    t.channels.push_back({.metric = "m" + std::to_string(c), .kind = kind});
    t.values.insert(t.values.end(), rows[c].begin(), rows[c].end());
  }
  return t;
}

TEST(FeatureMatrix, HoldsAsManyWholeWindowsAsFit) {
  EXPECT_EQ(window_grid(3, 1, 0.1, 0, 29).count, 0U);
  EXPECT_EQ(window_grid(3, 1, 0.1, 0, 30).count, 1U);
  const WindowGrid grid = window_grid(3, 1, 0.1, 0, 600);
  EXPECT_EQ(grid.count, 58U);
  EXPECT_EQ(grid.first_sample(57), 570U);
  EXPECT_EQ(grid.end_sample(57), 600U);
}

TEST(FeatureMatrix, SumsEventsAndDescribesSignals) {
  Telemetry t = telemetry({{1, 2, 3, 4}, {0, 1, 0, 5}});
  t.channels[1].kind = Kind::event;
  const WindowGrid grid{.length = 2, .stride = 2, .count = 2};
  const std::vector<std::size_t> both{0, 1};
  const FeatureMatrix matrix = feature_matrix(t, both, grid);
  ASSERT_EQ(matrix.columns.size(), features().size() + 1);
  EXPECT_EQ(matrix.columns.front().feature->name, "mean");
  EXPECT_DOUBLE_EQ(matrix.values(0, 0), 1.5);
  EXPECT_DOUBLE_EQ(matrix.values(1, 0), 3.5);
  EXPECT_EQ(matrix.columns.back().feature->name, "sum");
  EXPECT_DOUBLE_EQ(matrix.values(1, matrix.values.cols() - 1), 5);
  const auto everything = [](const Channel&) { return true; };
  EXPECT_EQ(feature_matrix(t, both, grid, everything).columns.size(), 2U);
}

TEST(FeatureMatrix, CallsWindowsWithMoreThanHalfMissingUnknown) {
  const double nan = std::nan("");
  const Telemetry t = telemetry({{1, nan, nan, nan, 1, 3, nan, nan}});
  const WindowGrid grid{.length = 4, .stride = 4, .count = 2};
  const std::vector<std::size_t> one{0};
  const FeatureMatrix matrix = feature_matrix(t, one, grid);
  EXPECT_TRUE(std::isnan(matrix.values(0, 0)));
  EXPECT_DOUBLE_EQ(matrix.values(1, 0), 2);
}

TEST(FeatureMatrix, DoesNotTakeAGapForFewerEvents) {
  const double nan = std::nan("");
  const Telemetry t = telemetry({{2, 2, 2, 2, 2, nan, 2, 2, 2, 2, nan, nan}}, Kind::event);
  const WindowGrid grid{.length = 4, .stride = 4, .count = 3};
  const std::vector<std::size_t> one{0};
  const FeatureMatrix matrix = feature_matrix(t, one, grid);
  ASSERT_EQ(matrix.values.cols(), 1);
  for (Eigen::Index w = 0; w < 3; ++w) EXPECT_DOUBLE_EQ(matrix.values(w, 0), 8) << w;
}

TEST(FeatureMatrix, StandardisesAndLeavesOutWhatNeverVaries) {
  FeatureMatrix matrix;
  matrix.values.resize(4, 3);
  matrix.values << 1, 5, std::nan(""), 3, 5, 2, 1, 5, 4, 3, 5, std::nan("");
  matrix.columns = {{0, features().data()}, {1, features().data()}, {2, features().data()}};
  const FeatureMatrix z = standardise(matrix);
  ASSERT_EQ(z.values.cols(), 2);
  EXPECT_EQ(z.columns[1].channel, 2U);
  EXPECT_DOUBLE_EQ(z.values(0, 0), -1);
  EXPECT_DOUBLE_EQ(z.values(3, 0), 1);
  EXPECT_DOUBLE_EQ(z.values(0, 1), 0);  // missing: as ordinary as can be
  EXPECT_DOUBLE_EQ(z.values(2, 1), 1);
}

TEST(FeatureMatrix, FindsTheExactPeriodOfConstantAndPeriodicSeries) {
  EXPECT_EQ(exact_period(std::vector<double>{}), std::nullopt);
  EXPECT_EQ(exact_period(std::vector<double>(20, 7)), 1U);
  EXPECT_EQ(exact_period(std::vector<double>(20, std::nan(""))), 1U);
  EXPECT_EQ(exact_period(std::vector<double>{1, 2, 3, 1, 2, 3, 1, 2, 3, 1}), 3U);
  EXPECT_EQ(exact_period(std::vector<double>{1, 2, 3, 1, 2, 3, 1, 2, 4, 1}), std::nullopt);
  EXPECT_EQ(exact_period(std::vector<double>{1, 2, 3, 4, 1, 2, 3, 4}), std::nullopt);  // seen twice only
}

}  // namespace
}  // namespace reveal::tests::feature_matrix_test
