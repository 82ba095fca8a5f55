#include "hdf5schema/basics/random_hex.h"

#include <gtest/gtest.h>

#include <set>

namespace reveal::tests::random_hex_test {
namespace {

TEST(RandomHex, HasTwoDigitsForEachByte) {
  EXPECT_EQ(random_hex(0), "");
  EXPECT_EQ(random_hex(16).size(), 32U);
  EXPECT_EQ(random_hex(256).size(), 512U);
}

TEST(RandomHex, UsesEveryDigitAndRepeatsNoText) {
  std::set<char> digits;
  std::set<std::string> texts;
  for (int i = 0; i < 64; ++i) {
    const std::string text = random_hex(16);
    digits.insert(text.begin(), text.end());
    texts.insert(text);
  }
  EXPECT_EQ(texts.size(), 64U);
  EXPECT_EQ(std::string(digits.begin(), digits.end()), "0123456789abcdef");
}

}  // namespace
}  // namespace reveal::tests::random_hex_test
