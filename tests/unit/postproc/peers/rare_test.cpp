#include "postproc/peers/rare.h"

#include <gtest/gtest.h>

#include <string>

namespace reveal::tests::rare_test {
namespace {

TEST(Rare, TakesTheRoomOfAPointer) {
  EXPECT_EQ(sizeof(Rare<std::string>), sizeof(void*));
}

TEST(Rare, IsCopiedWithItsValue) {
  Rare<std::string> one = std::string("a");
  Rare<std::string> other = one;
  EXPECT_EQ(one, other);
  *other += "b";
  EXPECT_EQ(*one, "a");
  EXPECT_NE(one, other);
  one = other;
  EXPECT_EQ(*one, "ab");
  other.reset();
  EXPECT_EQ(*one, "ab");
  one = other;
  EXPECT_FALSE(one.has_value());
}

TEST(Rare, IsAnotherWithoutAValue) {
  const Rare<std::string> none;
  EXPECT_EQ(none, Rare<std::string>());
  EXPECT_NE(none, Rare<std::string>(std::string()));
}

}  // namespace
}  // namespace reveal::tests::rare_test
