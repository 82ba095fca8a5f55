// The window detectors against scikit-learn's values (tests/data/golden/make_golden.py), and pruning.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>

#include "postproc/detect/paper/detector.h"
#include "postproc/detect/paper/pruning.h"
#include "postproc/numerics/isolation_forest.h"
#include "postproc/numerics/percentile.h"

namespace reveal::tests::window_test {
namespace {

std::vector<std::vector<double>> read_csv(const std::string& file, bool header = false) {
  std::vector<std::vector<double>> rows;
  std::ifstream in(std::string(TEST_DATA "/golden/") + file);
  std::string line;
  if (header) std::getline(in, line);
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::string field;
    rows.emplace_back();
    while (std::getline(fields, field, ',')) {
      rows.back().push_back(field == "tall" ? 0 : field == "wide" ? 1 : std::stod(field));
    }
  }
  return rows;
}

Eigen::MatrixXd golden_rows() {
  const auto rows = read_csv("if_X.csv");
  Eigen::MatrixXd x(static_cast<Eigen::Index>(rows.size()), static_cast<Eigen::Index>(rows.front().size()));
  for (Eigen::Index r = 0; r < x.rows(); ++r) {
    for (Eigen::Index c = 0; c < x.cols(); ++c)
      x(r, c) = rows[static_cast<std::size_t>(r)][static_cast<std::size_t>(c)];
  }
  return x;
}

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

TEST(IsolationForest, ExpectsTheSearchDepthOfABinaryTree) {
  EXPECT_EQ(average_path_length(0), 0);
  EXPECT_EQ(average_path_length(1), 0);
  EXPECT_EQ(average_path_length(2), 1);
  EXPECT_NEAR(average_path_length(256), 10.244770920119917, 1e-12);
}

TEST(IsolationForest, ScoresScikitLearnsTreesAsScikitLearnDoes) {
  IsolationForest forest{.sample = 64};
  for (const auto& row : read_csv("if_trees.csv", true)) {
    const auto tree = static_cast<std::size_t>(row[0]);
    forest.trees.resize(std::max(forest.trees.size(), tree + 1));
    forest.trees[tree].push_back({.feature = static_cast<int>(row[1]),
                                  .threshold = row[2],
                                  .left = static_cast<std::uint32_t>(row[3]),
                                  .right = static_cast<std::uint32_t>(row[4]),
                                  .size = static_cast<std::uint32_t>(row[5])});
  }
  ASSERT_EQ(forest.trees.size(), 3U);
  const Eigen::MatrixXd x = golden_rows().cast<float>().cast<double>();  // scikit-learn works on float32
  const auto score = forest.score(x);
  const auto golden = read_csv("if_trees_score.csv");
  for (std::size_t r = 0; r < score.size(); ++r) EXPECT_NEAR(score[r], golden[r][0], 1e-9) << r;
}

TEST(IsolationForest, RanksRowsAsScikitLearnDoes) {
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

TEST(IsolationForest, GivesTheSameScoresForTheSameSeed) {
  const Eigen::MatrixXd x = golden_rows();
  EXPECT_EQ(IsolationForest::fit(x, 4).score(x), IsolationForest::fit(x, 4).score(x));
  EXPECT_NE(IsolationForest::fit(x, 4).score(x), IsolationForest::fit(x, 5).score(x));
}

TEST(IsolationForest, SurvivesRowsThatAreAllEqual) {
  const Eigen::MatrixXd x = Eigen::MatrixXd::Constant(40, 3, 2.0);
  const auto score = IsolationForest::fit(x, 0).score(x);
  EXPECT_TRUE(std::all_of(score.begin(), score.end(), [&](double s) { return s == score[0]; }));
}

TEST(Percentile, InterpolatesAsNumpyDoes) {
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 50), 2.5);
  EXPECT_NEAR(percentile({1, 2, 3, 4, 5}, 99), 4.96, 1e-12);
  EXPECT_TRUE(std::isnan(percentile({}, 99)));
}

Telemetry correlated() {
  std::mt19937_64 engine(1);
  Telemetry t{.samples = 200};
  t.values.resize(4 * t.samples);
  for (const char* metric : {"irq.LOC", "cpu.user", "mem.dirty", "fixed"}) t.channels.push_back({.metric = metric});
  for (std::size_t s = 0; s < t.samples; ++s) {
    const auto load = static_cast<double>(engine() % 1000);
    t.series(0)[s] = -2 * load;  // follows the load, upside down
    t.series(1)[s] = load;
    t.series(2)[s] = static_cast<double>(engine() % 1000);
    t.series(3)[s] = 1;
  }
  return t;
}

TEST(Pruning, KeepsUtilisationOfWhatMovesTogether) {
  const Telemetry t = correlated();
  const std::vector<std::size_t> expected{1, 2};
  EXPECT_EQ(prune(t, 0, t.samples), expected);
}

TEST(Pruning, KeepsEverythingThatVariesBelowItsThreshold) {
  const Telemetry t = correlated();
  const std::vector<std::size_t> expected{0, 1, 2};
  EXPECT_EQ(prune(t, 0, t.samples, 1.1), expected);
}

TEST(Pruning, TakesAConstantWithAGapForAConstant) {
  Telemetry t = correlated();
  t.series(3)[17] = std::nan("");
  const std::vector<std::size_t> expected{1, 2};
  EXPECT_EQ(prune(t, 0, t.samples), expected);
}

TEST(Pruning, LeavesRevealItselfOut) {
  Telemetry t = correlated();
  t.channels[1].subsystem = Subsystem::self;
  const std::vector<std::size_t> expected{0, 2};
  EXPECT_EQ(prune(t, 0, t.samples), expected);
}

}  // namespace
}  // namespace reveal::tests::window_test
