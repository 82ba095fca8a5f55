#include "postproc/words/ink.h"

#include <gtest/gtest.h>

namespace reveal::tests::ink_test {
namespace {

TEST(Ink, PaintsWhereThereAreColoursOnly) {
  EXPECT_EQ(painted("SLOWER", Ink::red, true), "\x1b[1;31mSLOWER\x1b[0m");
  EXPECT_EQ(painted("at 10:32", Ink::dim, true), "\x1b[2mat 10:32\x1b[0m");
  EXPECT_EQ(painted("as it is", Ink::plain, true), "as it is");
  EXPECT_EQ(painted("SLOWER", Ink::red, false), "SLOWER");
}

}  // namespace
}  // namespace reveal::tests::ink_test
