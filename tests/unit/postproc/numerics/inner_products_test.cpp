#include "postproc/numerics/inner_products.h"

#include <gtest/gtest.h>

#include <random>

namespace reveal::tests::inner_products_test {
namespace {

Eigen::MatrixXf random_vectors(Eigen::Index length, Eigen::Index count, unsigned seed) {
  std::mt19937 engine(seed);
  Eigen::MatrixXf vectors(length, count);
  for (float& v : vectors.reshaped()) v = static_cast<float>(engine() % 2001) / 1000 - 1;
  return vectors;
}

TEST(InnerProducts, AreThoseOfEveryPair) {
  for (const auto& [length, a_count, b_count] :
       {std::tuple{1, 1, 1}, {255, 16, 4}, {257, 17, 3}, {700, 33, 41}, {5, 2, 90}, {64, 0, 3}, {0, 2, 2}}) {
    const Eigen::MatrixXf a = random_vectors(length, a_count, 1);
    const Eigen::MatrixXf b = random_vectors(length, b_count, 2);
    const Eigen::MatrixXd exact = a.cast<double>().transpose() * b.cast<double>();
    const Eigen::MatrixXf got = inner_products(a, b);
    ASSERT_EQ(got.rows(), a_count);
    ASSERT_EQ(got.cols(), b_count);
    if (got.size() == 0) continue;
    EXPECT_LT((got.cast<double>() - exact).cwiseAbs().maxCoeff(), 1e-4) << length;
  }
}

TEST(InnerProducts, OfVectorsWithThemselvesAreSymmetric) {
  for (const Eigen::Index count : {1, 15, 16, 50}) {
    const Eigen::MatrixXf vectors = random_vectors(300, count, 3);
    const Eigen::MatrixXf got = inner_products(vectors);
    EXPECT_EQ(got, got.transpose());
    EXPECT_LT((got - inner_products(vectors, vectors)).cwiseAbs().maxCoeff(), 1e-5) << count;
  }
}

}  // namespace
}  // namespace reveal::tests::inner_products_test
