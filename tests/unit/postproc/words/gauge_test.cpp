#include "postproc/words/gauge.h"

#include <gtest/gtest.h>

#include <cmath>

namespace reveal::tests::gauge_test {
namespace {

TEST(Gauge, EscapesLabelsAndLeavesOutEmptySetsAndUnknownValues) {
  Gauge gauge("reveal_x", "seconds", "Time.");
  EXPECT_EQ(gauge.text(), "");
  gauge.add({}, 1763640000);
  gauge.add({{"rule", "a\"b\\c\nd"}, {"job", "7"}}, 0.5);
  gauge.add({{"rule", "none"}}, std::nullopt);
  gauge.add({{"rule", "none"}}, std::nan(""));
  EXPECT_EQ(gauge.text(),
            "# HELP reveal_x Time.\n# TYPE reveal_x gauge\n# UNIT reveal_x seconds\n"
            "reveal_x 1763640000\nreveal_x{rule=\"a\\\"b\\\\c d\",job=\"7\"} 0.5\n");
}

}  // namespace
}  // namespace reveal::tests::gauge_test
