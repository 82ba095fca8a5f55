#include "core/pmu/allowance.h"

#include <gtest/gtest.h>

namespace reveal::tests::allowance_test {
namespace {

TEST(Allowance, IsUsedUpAtItsEndAndDoesNotRefillWithoutARate) {
  Allowance allowance(2, 0);
  EXPECT_FALSE(allowance.is_used_up());
  allowance.use(1.5);
  EXPECT_FALSE(allowance.is_used_up());
  allowance.use(10);
  EXPECT_TRUE(allowance.is_used_up());
  EXPECT_TRUE(allowance.is_used_up());
}

TEST(Allowance, IsNoLargerForATimeInWhichItWasNotUsed) {
  Allowance allowance(2, 1e12);
  EXPECT_FALSE(allowance.is_used_up());  // refills
  allowance.use(1e30);
  EXPECT_TRUE(allowance.is_used_up());
}

}  // namespace
}  // namespace reveal::tests::allowance_test
