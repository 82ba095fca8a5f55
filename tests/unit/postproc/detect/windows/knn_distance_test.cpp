#include "postproc/detect/windows/knn_distance.h"

#include <gtest/gtest.h>

#include <vector>

#include "gram_of.h"

namespace reveal::tests::knn_distance_test {
namespace {

TEST(KnnDistance, MeasuresTheDistanceToTheKthNeighbourAtAnotherTime) {
  Eigen::MatrixXd x(6, 1);
  x << 0, 0.1, 5, 0, 0.2, 7;
  const auto distance = neighbour_distances(gram_of(x), 2, 1);
  const std::vector<double> expected{0.2, 0.1, 4.8, 0.1, 0.2, 6.9};  // row 1 is not compared with 0 and 2
  for (std::size_t w = 0; w < 6; ++w) EXPECT_NEAR(distance[w], expected[w], 1e-7) << w;
  EXPECT_EQ(neighbour_distances(gram_of(x), 2, 10), std::vector<double>(6));
}

}  // namespace
}  // namespace reveal::tests::knn_distance_test
