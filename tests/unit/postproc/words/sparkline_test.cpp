#include "postproc/words/sparkline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace reveal::tests::sparkline_test {
namespace {

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();

TEST(Sparkline, RisesFromZeroToTheLargestValue) {
  EXPECT_EQ(sparkline(std::vector<double>{0, 1, 2, 8}, 10), "▁▂▃█");
  EXPECT_EQ(sparkline(std::vector<double>{0, 0}, 10), "▁▁");
  EXPECT_EQ(sparkline(std::vector<double>{}, 10), "");
}

TEST(Sparkline, HasAGapWhereNothingWasMeasured) {
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(sparkline(std::vector<double>{4, kGap, infinite, 4}, 10), "█  █");
  EXPECT_EQ(sparkline(std::vector<double>{4, kGap}, 10, "·"), "█·");
}

TEST(Sparkline, ShowsTheLastValuesThatFit) {
  EXPECT_EQ(sparkline(std::vector<double>{8, 8, 0, 8}, 2), "▁█");
}

TEST(Sparkline, ReducesAJobToMeansOfPartsOfEqualLength) {
  EXPECT_EQ(reduced(std::vector<double>{1, 3, 5, 7}, 2), (std::vector<double>{2, 6}));
  EXPECT_EQ(reduced(std::vector<double>{1, 3}, 8), (std::vector<double>{1, 3}));
  EXPECT_EQ(reduced(std::vector<double>{kGap, 3}, 1), (std::vector<double>{3}));
  EXPECT_TRUE(std::isnan(reduced(std::vector<double>{kGap, kGap}, 1).at(0)));
  EXPECT_TRUE(reduced(std::vector<double>{}, 8).empty());
}

TEST(Sparkline, IsForLocalesOfUtf8Only) {
  EXPECT_TRUE(is_utf8_locale("de_DE.UTF-8"));
  EXPECT_TRUE(is_utf8_locale("C.utf8"));
  EXPECT_FALSE(is_utf8_locale("C"));
  EXPECT_FALSE(is_utf8_locale("de_DE.ISO-8859-1"));
}

}  // namespace
}  // namespace reveal::tests::sparkline_test
