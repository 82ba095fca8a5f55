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
