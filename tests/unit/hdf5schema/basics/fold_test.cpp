#include "hdf5schema/basics/fold.h"

#include <gtest/gtest.h>

namespace reveal::tests::fold_test {
namespace {

TEST(Fold, BreaksBetweenWordsAndIndents) {
  EXPECT_EQ(folded("  see", "one two three four", 8, 20), "  see   one two\n        three four\n");
  EXPECT_EQ(folded("", "one  two\nthree", 0, 80), "one two three\n");
}

TEST(Fold, GivesALongWordItsOwnLine) {
  EXPECT_EQ(folded("ab", "https://example.org/a/long/path x", 4, 10), "ab  https://example.org/a/long/path\n    x\n");
}

TEST(Fold, KeepsANumberWithItsUnit) {
  EXPECT_EQ(folded("", "ran for 42.4 s", 0, 12), "ran for\n42.4 s\n");
  EXPECT_EQ(folded("", "lost (5.37 %)", 0, 10), "lost\n(5.37 %)\n");
  EXPECT_EQ(folded("", "at 3 o'clock exactly", 0, 8), "at 3\no'clock\nexactly\n");
  EXPECT_EQ(folded("", "cpu3 s", 0, 4), "cpu3\ns\n");
  EXPECT_EQ(folded("", "42 s", 0, 3), "42\ns\n") << "too narrow for both";
}

TEST(Fold, KeepsABlankBehindALongLabel) {
  EXPECT_EQ(folded("mem.leak:", "grows", 2, 80), "mem.leak: grows\n");
  EXPECT_EQ(folded("label", "", 10, 80), "label\n");
}

TEST(Fold, CountsColumnsAsTheCallerDoes) {
  const auto one = [](std::string_view) -> std::size_t { return 1; };
  EXPECT_EQ(folded_behind("[red]x[/] ", 2, "aaaa bbbb cccc", 1, 5, one), "[red]x[/] aaaa bbbb\n cccc\n");
}

}  // namespace
}  // namespace reveal::tests::fold_test
