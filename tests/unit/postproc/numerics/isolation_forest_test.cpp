#include "postproc/numerics/isolation_forest.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "golden_rows.h"

namespace reveal::tests::isolation_forest_test {
namespace {

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

}  // namespace
}  // namespace reveal::tests::isolation_forest_test
