#include "hdf5schema/basics/text.h"

#include <gtest/gtest.h>

#include <limits>

namespace reveal {
namespace {

using namespace std::chrono_literals;

TEST(Text, CutsLinesWithAndWithoutAnEnd) {
  std::string_view rest = "one\n\nthree";
  std::string_view line;
  EXPECT_TRUE(next_line(rest, line));
  EXPECT_EQ(line, "one");
  EXPECT_TRUE(next_line(rest, line));
  EXPECT_EQ(line, "");
  EXPECT_TRUE(next_line(rest, line));
  EXPECT_EQ(line, "three");
  EXPECT_FALSE(next_line(rest, line));
}

TEST(Text, CutsWordsAtAnyBlank) {
  std::string_view rest = "  cpu0\t12  7 ";
  EXPECT_EQ(next_word(rest), "cpu0");
  EXPECT_EQ(next_word(rest), "12");
  EXPECT_EQ(next_word(rest), "7");
  EXPECT_EQ(next_word(rest), "");
}

TEST(Text, ParsesWholeIntegersOnly) {
  EXPECT_EQ(parse_int("-12"), -12);
  EXPECT_EQ(parse_int("18446744073709551615"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(parse_int(""), std::nullopt);
  EXPECT_EQ(parse_int("12kB"), std::nullopt);
  EXPECT_EQ(parse_int("1.5"), std::nullopt);
  EXPECT_EQ(parse_int("+1"), std::nullopt);
  EXPECT_EQ(parse_int("-99999999999999999999"), std::nullopt);
}

TEST(Text, ParsesKernelLists) {
  EXPECT_EQ(parse_cpu_list("0-3,8,10-11\n"), (std::vector<int>{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(parse_cpu_list(""), std::vector<int>{});
  EXPECT_EQ(parse_cpu_list("3-1,x,2"), std::vector<int>{2});
  EXPECT_EQ(parse_cpu_list("2,2,1-2"), (std::vector<int>{1, 2}));
  EXPECT_EQ(parse_cpu_list("0-99999999"), std::vector<int>{});
}

TEST(Text, WritesListsBack) {
  const std::vector<int> cpus = {0, 1, 2, 3, 8};
  EXPECT_EQ(format_cpu_list(cpus), "0-3,8");
  EXPECT_EQ(format_cpu_list({}), "");
}

TEST(Text, ParsesDurationsWithAUnit) {
  EXPECT_EQ(parse_duration("100ms"), 100ms);
  EXPECT_EQ(parse_duration("2.5s"), 2500ms);
  EXPECT_EQ(parse_duration("3min"), 3min);
  EXPECT_EQ(parse_duration("100"), std::nullopt);
  EXPECT_EQ(parse_duration("-1s"), std::nullopt);
  EXPECT_EQ(parse_duration("1 s"), std::nullopt);
  EXPECT_EQ(parse_duration("nan"), std::nullopt);
}

TEST(Text, SuggestsOnlyWhatIsNear) {
  const std::vector<std::string> keys = {"period", "enabled", "probes"};
  EXPECT_EQ(nearest("peroid", keys), "period");
  EXPECT_EQ(nearest("zzzzzz", keys), std::nullopt);
}

}  // namespace
}  // namespace reveal
