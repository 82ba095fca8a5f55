#include "core/sampler/diffed_text.h"

#include <gtest/gtest.h>

#include "hdf5schema/basics/text.h"

namespace reveal::tests::diffed_text_test {
namespace {

constexpr FamilyTable kTable{"memory/test",     Kind::gauge,         Unit::bytes,     Scope::node,
                             Subsystem::memory, "Numbers of a text", "/proc/meminfo", {}};

/// Lines of a key and a number of kB; "Ignored:" is skipped, and any text may follow "Rest:".
class Text {
 public:
  /// True if the text was parsed. Its numbers are in value().
  bool take(std::string_view input) {
    if (text_.update(input)) return false;
    family_.begin();
    std::string_view rest = text_.parse();
    std::string_view line;
    while (next_line(rest, line)) {
      const std::string_view key = cut_word(line);
      if (key == "Rest:") {
        text_.ignore(line);
        continue;
      }
      std::int32_t channel = Family::kNoChannel;
      if (key != "Ignored:") {
        channel = 0;
        while (static_cast<std::size_t>(channel) < family_.channels().size() &&
               family_.channels()[static_cast<std::size_t>(channel)].get().metric != key)
          ++channel;
        if (static_cast<std::size_t>(channel) == family_.channels().size()) channel = family_.add(key);
      }
      text_.set(cut_word(line), family_, channel, 1024);
    }
    return true;
  }
  [[nodiscard]] std::int64_t value(std::string_view key) const { return family_.value(key); }

 private:
  TraceSink sink_;
  Family& family_ = sink_.add_family(kTable, std::chrono::seconds(1));
  DiffedText text_;
};

TEST(DiffedText, IsNotParsedWhereOnlyDigitsChange) {
  Text text;
  EXPECT_TRUE(text.take("Free:    1234 kB\nDirty:      8 kB\n"));
  EXPECT_EQ(text.value("Free:"), 1234 * 1024);
  EXPECT_FALSE(text.take("Free:    1235 kB\nDirty:      8 kB\n"));
  EXPECT_EQ(text.value("Free:"), 1235 * 1024);
  EXPECT_EQ(text.value("Dirty:"), 8 * 1024);
  EXPECT_FALSE(text.take("Free:    1235 kB\nDirty:      8 kB\n"));
  EXPECT_EQ(text.value("Free:"), 1235 * 1024);
}

TEST(DiffedText, HasRoomForLongerAndShorterNumbersWhereTheyAreAligned) {
  Text text;
  text.take("Free:    1234 kB\nDirty:      8 kB\n");
  EXPECT_FALSE(text.take("Free:   91235 kB\nDirty:     12 kB\n"));
  EXPECT_EQ(text.value("Free:"), 91235 * 1024);
  EXPECT_EQ(text.value("Dirty:"), 12 * 1024);
  EXPECT_FALSE(text.take("Free:       7 kB\nDirty:     12 kB\n"));
  EXPECT_EQ(text.value("Free:"), 7 * 1024);
}

TEST(DiffedText, IsParsedWhereItsLayoutChanges) {
  Text text;
  text.take("Free: 99 kB\nDirty: 8 kB\n");
  EXPECT_TRUE(text.take("Free: 100 kB\nDirty: 8 kB\n"));
  EXPECT_EQ(text.value("Free:"), 100 * 1024);
  EXPECT_TRUE(text.take("Free: 100 kB\nSwaps: 8 kB\n"));
  EXPECT_EQ(text.value("Dirty:"), kMissing);
  EXPECT_EQ(text.value("Swaps:"), 8 * 1024);
  EXPECT_TRUE(text.take("Free: 1x0 kB\nSwaps: 8 kB\n"));
  EXPECT_EQ(text.value("Free:"), kMissing);
  EXPECT_TRUE(text.take(""));
  EXPECT_EQ(text.value("Swaps:"), kMissing);
}

TEST(DiffedText, IsNotParsedForNumbersOfNobody) {
  Text text;
  text.take("Free: 99 kB\nIgnored: 10\n");
  EXPECT_FALSE(text.take("Free: 99 kB\nIgnored: 11\n"));
  EXPECT_EQ(text.value("Free:"), 99 * 1024);
}

TEST(DiffedText, LetsTheRestOfALineChangeAsItLikes) {
  Text text;
  text.take("Rest: 1 2 33\nFree: 99 kB\n");
  EXPECT_FALSE(text.take("Rest: 4 x 53\nFree: 98 kB\n"));
  EXPECT_EQ(text.value("Free:"), 98 * 1024);
  EXPECT_TRUE(text.take("Rest: 4 x 5\nFree: 198 kB\n"));  // as long, but its lines are not
  EXPECT_EQ(text.value("Free:"), 198 * 1024);
}

TEST(DiffedText, IsAlwaysParsedWhereAKeyComesTwice) {
  Text text;
  text.take("Free: 1 kB\nFree: 2 kB\n");
  EXPECT_TRUE(text.take("Free: 7 kB\nFree: 2 kB\n"));
  EXPECT_EQ(text.value("Free:"), 2 * 1024);
}

TEST(DiffedText, KeepsMissingWhatIsTooLarge) {
  Text text;
  text.take("Free: 1000000000000000000 kB\n");
  EXPECT_EQ(text.value("Free:"), kMissing);
  EXPECT_TRUE(text.take("Free: 0000000000000000001 kB\n"));
  EXPECT_EQ(text.value("Free:"), 1024);
}

}  // namespace
}  // namespace reveal::tests::diffed_text_test
