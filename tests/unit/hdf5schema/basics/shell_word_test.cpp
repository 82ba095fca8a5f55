#include "hdf5schema/basics/shell_word.h"

#include <gtest/gtest.h>

namespace reveal::tests::shell_word_test {
namespace {

TEST(ShellWord, IsOneWordOfAShell) {
  EXPECT_EQ(shell_word("reveal-4711/n01"), "reveal-4711/n01");
  EXPECT_EQ(shell_word("my dir"), "'my dir'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("a$(b)"), "'a$(b)'");
  EXPECT_EQ(shell_word("-x"), "'./-x'") << "no option";
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace reveal::tests::shell_word_test
