#include "postproc/numerics/gram.h"

#include <gtest/gtest.h>

#include "gram_of.h"

namespace reveal::tests::gram_test {
namespace {

TEST(Gram, HoldsTheInnerProductsOfAllWindows) {
  for (const Eigen::Index windows : {1, 7, 8, 9, 61}) {
    const Eigen::MatrixXd x = noise(windows, 130);
    EXPECT_LT((gram_of(x) - x * x.transpose()).cwiseAbs().maxCoeff(), 1e-12) << windows;
  }
}

}  // namespace
}  // namespace reveal::tests::gram_test
