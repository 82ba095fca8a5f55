// The paper's detectors against scikit-learn's values.
#include "postproc/detect/paper/detector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "golden_rows.h"

namespace reveal::tests::detector_test {
namespace {

Eigen::MatrixXd standardised(const Eigen::MatrixXd& x) {
  const Eigen::MatrixXd centered = x.rowwise() - x.colwise().mean();
  const Eigen::RowVectorXd deviation = centered.array().square().colwise().mean().sqrt();
  return centered.array().rowwise() / deviation.array();
}

const Detector& detector(Method method) {
  for (const Detector& d : detectors()) {
    if (d.method == method) return d;
  }
  throw std::runtime_error("no detector " + std::string(name_of(method)));
}

std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return values[a] < values[b]; });
  std::vector<double> rank(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<double>(i);
  return rank;
}

double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto ra = ranks(a);
  const auto rb = ranks(b);
  const double mean = static_cast<double>(a.size() - 1) / 2;
  double ab = 0;
  double aa = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (ra[i] - mean) * (rb[i] - mean);
    aa += (ra[i] - mean) * (ra[i] - mean);
  }
  return ab / aa;
}

TEST(DetectorTable, HoldsThePapersThreeInOrder) {
  ASSERT_EQ(detectors().size(), 3U);
  EXPECT_EQ(detectors()[0].method, Method::paper_z);
  EXPECT_EQ(detectors()[1].method, Method::paper_mahalanobis);
  EXPECT_EQ(detectors()[2].method, Method::paper_forest);
}

TEST(ZScore, IsTheMeanOfTheAbsoluteValues) {
  Eigen::MatrixXd z(2, 3);
  z << 1, -2, 3, 0, 0, -0.3;
  const auto score = detector(Method::paper_z).score(z, 0);
  EXPECT_DOUBLE_EQ(score[0], 2);
  EXPECT_DOUBLE_EQ(score[1], 0.1);
}

TEST(Mahalanobis, EqualsScikitLearnForTallAndWideMatrices) {
  const Eigen::MatrixXd x = golden_rows();
  const auto tall = detector(Method::paper_mahalanobis).score(standardised(x), 0);
  const auto wide = detector(Method::paper_mahalanobis).score(standardised(x.topRows(10)), 0);
  const auto golden = read_csv("mahalanobis.csv", true);
  ASSERT_EQ(golden.size(), 610U);
  for (const auto& row : golden) {
    const auto index = static_cast<std::size_t>(row[1]);
    EXPECT_NEAR(row[0] == 0 ? tall[index] : wide[index], row[2], 1e-9) << (row[0] == 0 ? "tall " : "wide ") << index;
  }
}

TEST(Mahalanobis, SaysNothingAboutOneWindow) {
  EXPECT_EQ(detector(Method::paper_mahalanobis).score(Eigen::MatrixXd::Ones(1, 4), 0), std::vector<double>{0});
}

TEST(PaperForest, RanksRowsAsScikitLearnDoes) {
  const auto score = detector(Method::paper_forest).score(golden_rows(), 0);
  std::vector<double> golden;
  for (const auto& row : read_csv("if_score.csv")) golden.push_back(row[0]);
  EXPECT_GT(rank_correlation(score, golden), 0.9);

  // Area under the curve against scikit-learn's strangest 5 %.
  std::vector<double> sorted = golden;
  std::sort(sorted.begin(), sorted.end());
  const double threshold = sorted[sorted.size() * 95 / 100];
  double wins = 0;
  double pairs = 0;
  for (std::size_t a = 0; a < score.size(); ++a) {
    for (std::size_t b = 0; b < score.size(); ++b) {
      if (golden[a] < threshold || golden[b] >= threshold) continue;
      pairs += 1;
      wins += score[a] > score[b] ? 1 : 0;
    }
  }
  EXPECT_GT(wins / pairs, 0.98);
}

}  // namespace
}  // namespace reveal::tests::detector_test
