#include "postproc/numerics/present_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "postproc/telemetry/coarser.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal::tests::present_values_test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(PresentValues, LeaveOutWhatIsMissing) {
  const PresentValues all = present_values(std::vector<double>{kNaN, 3, -1, kNaN, 7, 7, 2, kNaN, 4, kNaN, 1});
  EXPECT_EQ(all.present, 7U);
  EXPECT_EQ(all.sum, 23);
  EXPECT_EQ(all.low, -1);
  EXPECT_EQ(all.high, 7);
  EXPECT_FALSE(all.constant());
}

TEST(PresentValues, OfNothingHaveNoMean) {
  for (const std::vector<double>& nothing : {std::vector<double>{}, std::vector<double>(9, kNaN)}) {
    const PresentValues all = present_values(nothing);
    EXPECT_EQ(all.present, 0U);
    EXPECT_TRUE(all.constant());
    EXPECT_TRUE(std::isnan(all.mean()));
  }
}

TEST(PresentValues, AreConstantAcrossGaps) {
  EXPECT_TRUE(present_values(std::vector<double>{5, 5, kNaN, 5, 5, 5}).constant());
  EXPECT_FALSE(present_values(std::vector<double>{5, 5, kNaN, 5, 5, 5, 5, 5, 5.5}).constant());
}

TEST(PresentValues, CountChangesAcrossGapsAndPieces) {
  const std::vector<double> values{kNaN, 1, 1, kNaN, kNaN, 1, 2, 2, 2, 2, 2, 3, 3, 4, 4, 4, 4, 4, 4, kNaN, 5};
  EXPECT_EQ(changes_in(values, kNaN), 4U);
  EXPECT_EQ(changes_in(values, 1), 4U);
  EXPECT_EQ(changes_in(values, 0), 5U);
  for (std::size_t cut = 0; cut <= values.size(); ++cut) {
    const std::span<const double> all(values);
    double before = kNaN;
    for (const double v : all.first(cut)) before = std::isnan(v) ? before : v;
    EXPECT_EQ(changes_in(all.first(cut), kNaN) + changes_in(all.subspan(cut), before), 4U) << cut;
  }
}

TEST(PresentValues, AreCopiedOntoZerosWhole) {
  std::vector<double> from(1500);
  std::iota(from.begin() + 600, from.begin() + 700, -1);
  from[1499] = kNaN;
  std::vector<double> to(1500);
  copy_onto_zeros(from, to);
  for (std::size_t t = 0; t < 1499; ++t) ASSERT_EQ(to[t], from[t]) << t;
  EXPECT_TRUE(std::isnan(to[1499]));
}

TEST(CallocAllocator, ComesAsZeros) {
  Telemetry telemetry;
  telemetry.values.resize(100'000);
  EXPECT_EQ(std::count(telemetry.values.begin(), telemetry.values.end(), 0), 100'000);
  telemetry.values.assign(1000, 7);
  EXPECT_EQ(std::count(telemetry.values.begin(), telemetry.values.end(), 7), 1000);
}

TEST(Coarser, MayBeMadeAgainInTheSameMemory) {
  Telemetry first{.samples = 4, .channels = {{.metric = "a", .kind = Kind::counter}}};
  first.values.assign({1, 2, kNaN, kNaN});
  Telemetry coarse;
  make_coarser(first, 2, coarse);
  EXPECT_EQ(coarse.series(0)[0], 3);
  EXPECT_TRUE(std::isnan(coarse.series(0)[1]));
  first.values.assign({0, 0, 0, kNaN});
  make_coarser(first, 2, coarse);
  EXPECT_EQ(coarse.series(0)[0], 0);
  EXPECT_EQ(coarse.series(0)[1], 0);
}

}  // namespace
}  // namespace reveal::tests::present_values_test
