#include "core/snapshot/planned_iterations.h"

#include <gtest/gtest.h>

#include <string>

namespace reveal::tests::planned_iterations_test {
namespace {

using namespace std::string_literals;

TEST(PlannedIterations, AreTheNumberInTheEnvironment) {
  EXPECT_EQ(planned_iterations_in("PATH=/bin\0REVEAL_ITERATIONS=3000\0HOME=/\0"s), 3000);
  EXPECT_EQ(planned_iterations_in("REVEAL_ITERATIONS=1"), 1) << "cut off before its end";
}

TEST(PlannedIterations, AreUnknownWithoutAPlainNumber) {
  for (const char* value : {"", "0", "-3", "many", "3e3", "3000 ", "1000000000001", "99999999999999999999"}) {
    EXPECT_EQ(planned_iterations_in("REVEAL_ITERATIONS="s + value + '\0'), 0) << value;
  }
  EXPECT_EQ(planned_iterations_in(""), 0);
  EXPECT_EQ(planned_iterations_in("REVEAL_ITERATIONS\0"s), 0);
  EXPECT_EQ(planned_iterations_in("REVEAL_ITERATIONS_2=5\0MY_REVEAL_ITERATIONS=5\0"s), 0);
}

}  // namespace
}  // namespace reveal::tests::planned_iterations_test
