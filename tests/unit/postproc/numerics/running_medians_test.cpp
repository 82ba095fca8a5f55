#include "postproc/numerics/running_medians.h"

#include <gtest/gtest.h>

#include "hdf5schema/basics/not_measured.h"

namespace reveal::tests::running_medians_test {
namespace {

TEST(RunningMedians, LeaveOutSpikesAndMissingValues) {
  const std::vector<double> values{1, 1, 90, 2, kNaN, 2, 2};
  EXPECT_EQ(running_medians(values, 3), (std::vector<double>{1, 1, 2, 46, 2, 2, 2}));
  EXPECT_EQ(running_medians(values, 1)[2], 90);
  EXPECT_TRUE(running_medians({}, 5).empty());
}

}  // namespace
}  // namespace reveal::tests::running_medians_test
