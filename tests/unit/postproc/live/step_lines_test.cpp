#include "postproc/live/step_lines.h"

#include <gtest/gtest.h>

namespace reveal::tests::step_lines_test {
namespace {

/// "task:text" of each.
std::vector<std::string> texts_of(StepLineReader& reader, std::string_view bytes) {
  std::vector<std::string> all;
  for (const StepLineReader::Text& one : reader.take(bytes)) all.push_back(std::to_string(one.task) + ":" + one.text);
  return all;
}

using Texts = std::vector<std::string>;

TEST(StepLines, BringATextBackWhateverItsLength) {
  for (const std::size_t length : {0U, 1U, 899U, 900U, 901U, 30'000U}) {
    const std::string text(length, 'x');
    const std::string lines = step_lines(7, text);
    StepLineReader reader(8);
    EXPECT_EQ(texts_of(reader, lines), Texts{"7:" + text}) << length;
    for (std::size_t at = 0; at < lines.size();) {
      const std::size_t end = lines.find('\n', at);
      ASSERT_LT(end - at, 1000U) << "srun cuts longer lines";
      at = end + 1;
    }
  }
}

TEST(StepLines, OfSeveralTasksMayBeMixed) {
  StepLineReader reader(3);
  EXPECT_EQ(texts_of(reader, "0 +ab\n2 +12\n0 .c\n"), Texts{"0:abc"});
  EXPECT_EQ(texts_of(reader, "2 "), Texts{});
  EXPECT_EQ(texts_of(reader, ".3"), Texts{});
  EXPECT_EQ(texts_of(reader, "\n1 .\n"), (Texts{"2:123", "1:"}));
  EXPECT_EQ(reader.left_out(), 0);
}

TEST(StepLines, OfOthersAreLeftOut) {
  StepLineReader reader(2);
  EXPECT_EQ(texts_of(reader, "hello\n\n2 .of no task\n-1 .x\n99999999999999999999 .x\n0.x\n0 x\n1  .x\n1\n0 .ours\n"),
            Texts{"0:ours"});
  EXPECT_EQ(reader.left_out(), 9);
}

TEST(StepLines, ThatAreTooLongTakeNoMemory) {
  StepLineReader reader(1);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(texts_of(reader, std::string(5000, 'x')), Texts{});
  EXPECT_EQ(texts_of(reader, "\n0 .next\n"), Texts{"0:next"});
  EXPECT_EQ(reader.left_out(), 1);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(texts_of(reader, "0 +" + std::string(900, 'y') + "\n"), Texts{});
  EXPECT_EQ(texts_of(reader, "0 .end of a text that is too long\n0 .next\n"), Texts{"0:next"});
  EXPECT_EQ(reader.left_out(), 2);
}

}  // namespace
}  // namespace reveal::tests::step_lines_test
