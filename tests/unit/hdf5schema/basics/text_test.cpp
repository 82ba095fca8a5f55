#include "hdf5schema/basics/text.h"

#include <gtest/gtest.h>

#include <limits>

#include "hdf5schema/basics/file_text.h"
#include "hdf5schema/basics/request.h"
#include "tests/unit/temporary_directory.h"

namespace reveal::tests::text_test {
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
  EXPECT_EQ(parse_cpu_list("5-6,1-9,3,9-10"), (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  std::string hostile;
  for (int i = 0; i < 100'000; ++i) hostile += "0-65535,";
  EXPECT_EQ(parse_cpu_list(hostile).size(), 65'536U) << "no more room than for its members";
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
  EXPECT_EQ(parse_duration("7d"), 168h);
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

TEST(Text, ParsesSizes) {
  EXPECT_EQ(parse_bytes("2GB"), 2'000'000'000U);
  EXPECT_EQ(parse_bytes("500 MB"), 500'000'000U);
  EXPECT_EQ(parse_bytes("1048576"), 1'048'576U);
  EXPECT_EQ(parse_bytes("2 apples"), std::nullopt);
  EXPECT_EQ(parse_bytes("-1"), std::nullopt);
  EXPECT_EQ(parse_bytes("B"), std::nullopt);
}

TEST(Text, SplitsListsOfNames) {
  EXPECT_EQ(split_names("cpu+memory,disk"), (std::vector<std::string>{"cpu", "memory", "disk"}));
  EXPECT_EQ(split_names(",,"), std::vector<std::string>{});
  EXPECT_EQ(split_names("a+b,c", ","), (std::vector<std::string>{"a+b", "c"}));
  EXPECT_EQ(split_words(" a  b\t"), (std::vector<std::string>{"a", "b"}));
}

TEST(Request, GivesTheLastValueOfAKey) {
  EXPECT_EQ(requested("interval=1s,output=out/%j", "output"), "out/%j");
  EXPECT_EQ(requested("interval=1s,interval=2s", "interval"), "2s");
  EXPECT_EQ(requested("off", "off"), "yes");
  EXPECT_EQ(requested("interval=1s", "mail"), "");
  EXPECT_EQ(requested("", "mail"), "");
}

TEST(FileText, EndsWhereReadingFails) {
  EXPECT_NE(file_text("/proc/self/status").find("\nPid:"), std::string::npos);
  EXPECT_EQ(file_text("/no/such/file"), "");
  EXPECT_EQ(file_text("/proc"), "") << "a folder can be opened, but not read";
}

TEST(FileText, EndsWhereItMayBeAsLongAsSomebodyLikes) {
  constexpr std::size_t kLong = 200'000;
  const TemporaryDirectory directory;
  const std::string path = directory.path() / "long";
  std::ofstream(path) << std::string(kLong, 'x');
  EXPECT_EQ(file_text(path, 150'000), std::string(150'000, 'x'));
  EXPECT_EQ(file_text(path, kLong + 1), std::string(kLong, 'x'));
  EXPECT_EQ(file_text("/no/such/file", kLong), "");
  EXPECT_EQ(file_text("/proc", kLong), "");
}

}  // namespace
}  // namespace reveal::tests::text_test
