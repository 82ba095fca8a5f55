#include "postproc/numerics/signed_log.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace reveal::tests::signed_log_test {
namespace {

void expect_as_the_library(const std::vector<double>& deviations, double scale) {
  std::vector<float> got(deviations.size());
  signed_log(deviations, scale, got);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double z = deviations[i] / scale;
    const auto expected = static_cast<float>(std::copysign(std::log1p(std::abs(z)), z));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(got[i])) << z;
    } else {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(expected)) << z;
    }
  }
}

TEST(SignedLog, IsThatOfTheLibraryToTheLastBit) {
  std::mt19937_64 engine(5);
  std::uniform_real_distribution<double> exponent(-60, 60);
  std::normal_distribution<double> usual;
  std::vector<double> deviations;
  for (int i = 0; i < 200'001; ++i) {
    deviations.push_back(i % 2 == 0 ? usual(engine) : std::copysign(std::exp2(exponent(engine)), usual(engine)));
  }
  expect_as_the_library(deviations, 1);
  expect_as_the_library(deviations, 0.37);
}

TEST(SignedLog, IsThatOfTheLibraryWhereNumbersEnd) {
  constexpr double kMost = std::numeric_limits<double>::max();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kLeast = std::numeric_limits<double>::denorm_min();
  const double root = std::sqrt(2.0) - 1;
  expect_as_the_library({0.0, -0.0, 1.0, -1.0, root, -root, kMost, -kMost, kInfinity, -kInfinity, std::nan(""), kLeast,
                         -kLeast, 1e-17, 0x1p-53, 0x1p52, 3},
                        1);
  expect_as_the_library({kMost, 1, -1, 0}, kLeast);
}

}  // namespace
}  // namespace reveal::tests::signed_log_test
