#include "postproc/diagnose/finding.h"

#include <gtest/gtest.h>

namespace reveal::tests::finding_test {
namespace {

TEST(TimeSpan, OverlapsNoneThatItOnlyTouches) {
  const TimeSpan span{.begin_utc_ns = 100, .end_utc_ns = 200};
  const TimeSpan next{.begin_utc_ns = 200, .end_utc_ns = 300};
  EXPECT_FALSE(span.overlaps(next));
  EXPECT_FALSE(next.overlaps(span));
}

TEST(TimeSpan, OverlapsOneWithWhichItSharesANanosecond) {
  const TimeSpan span{.begin_utc_ns = 100, .end_utc_ns = 200};
  const TimeSpan later{.begin_utc_ns = 199, .end_utc_ns = 300};
  EXPECT_TRUE(span.overlaps(later));
  EXPECT_TRUE(later.overlaps(span));
}

}  // namespace
}  // namespace reveal::tests::finding_test
