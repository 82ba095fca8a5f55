#include "postproc/numerics/percentile.h"

#include <gtest/gtest.h>

#include <cmath>

namespace reveal::tests::percentile_test {
namespace {

TEST(Percentile, InterpolatesAsNumpyDoes) {
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 50), 2.5);
  EXPECT_NEAR(percentile({1, 2, 3, 4, 5}, 99), 4.96, 1e-12);
  EXPECT_TRUE(std::isnan(percentile({}, 99)));
}

TEST(Percentile, IsTheValueBelowWhereAskedForOne) {
  std::vector<double> values = {4, 1, 3, 2};
  EXPECT_EQ(lower_percentile(values, 95), 3);
  EXPECT_EQ(lower_percentile(values, 100), 4);
  EXPECT_EQ(ranked<double>(values, 1), 2);
}

}  // namespace
}  // namespace reveal::tests::percentile_test
