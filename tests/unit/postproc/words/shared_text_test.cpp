#include "postproc/words/shared_text.h"

#include <gtest/gtest.h>

#include <thread>

namespace reveal::tests::shared_text_test {
namespace {

TEST(SharedText, IsKeptOnce) {
  const std::string name = "net.rx_bytes/a name that is longer than a string's own room";
  const SharedText one = name;
  const SharedText other = std::string_view(name);
  EXPECT_EQ(one, other);
  EXPECT_EQ(&one.str(), &other.str());
  EXPECT_LE(sizeof(SharedText), sizeof(void*));
}

TEST(SharedText, ComparesLikeItsLetters) {
  const SharedText user = "cpu.user";
  EXPECT_EQ(user, "cpu.user");
  EXPECT_EQ(std::string("cpu.user"), user);
  EXPECT_NE(user, "cpu.use");
  EXPECT_LT(SharedText("cpu.system"), user);
  EXPECT_LT(user, std::string_view("cpu.users"));
  EXPECT_GT(std::string("mem.free"), user);
}

TEST(SharedText, IsEmptyUntilItIsSet) {
  SharedText text;
  EXPECT_TRUE(text.empty());
  EXPECT_EQ(text, SharedText(""));
  text = "a";
  text.clear();
  EXPECT_EQ(text, "");
}

TEST(SharedText, IsMadeByAnyThread) {
  std::vector<SharedText> made[2];
  {
    std::vector<std::jthread> threads;
    for (auto& mine : made) {
      threads.emplace_back([&mine] {
        for (int i = 0; i < 1000; ++i) mine.emplace_back("channel " + std::to_string(i));
      });
    }
  }
  EXPECT_EQ(made[0], made[1]);
}

}  // namespace
}  // namespace reveal::tests::shared_text_test
