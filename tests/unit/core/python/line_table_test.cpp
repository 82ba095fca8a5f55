#include "core/python/line_table.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace reveal::tests::line_table_test {
namespace {

using namespace std::literals;

std::vector<std::byte> bytes_of(std::string_view hexadecimal) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hexadecimal.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hexadecimal.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

// co_linetable and co_lines() of CPython 3.11.2 for
//   1 def f(a):  2 b = a  4 c = (b +  5 1)  6 for i in range(3):  7 c += i  8 return c
TEST(LineTable, IsReadAsPythonDoesIt) {
  const auto table = bytes_of(
      "8000d808098041e0090ad8090af103010a0b8041e50d12903189588c58f00001050ff00001050f8801d808098851890688018801d80b0c80"
      "48");
  struct Range {
    int begin, end, line;
  };
  for (const Range& range :
       {Range{0, 2, 1}, {2, 6, 2}, {6, 8, 4}, {8, 10, 5}, {10, 16, 4}, {16, 50, 6}, {50, 62, 7}, {62, 66, 8}}) {
    for (int at = range.begin; at < range.end; at += 2) {
      EXPECT_EQ(line_of(LineTable::locations, table, 1, at), range.line) << at;
    }
  }
  EXPECT_EQ(line_of(LineTable::locations, table, 1, 66), 0);
  EXPECT_EQ(line_of(LineTable::locations, table, 1, -2), 1);
}

TEST(LineTable, OfLocationsHasInstructionsWithoutALine) {
  // no location for two units; then a long form: 70 lines further (signed varint 140: 0x4c 0x02), end line, columns
  const auto table = bytes_of("f9f04c02000101");
  EXPECT_EQ(line_of(LineTable::locations, table, 100, 0), 0);
  EXPECT_EQ(line_of(LineTable::locations, table, 100, 2), 0);
  EXPECT_EQ(line_of(LineTable::locations, table, 100, 4), 170);
}

// Objects/lnotab_notes.txt of CPython 3.9: (0,1) (6,1) (44,5) for lines 1, 2, 7 of a function on line 0.
TEST(LineTable, OfPython38IsPairsOfIncrements) {
  const auto table = bytes_of(
      "00010601"
      "2c05"
      "0cfd");
  EXPECT_EQ(line_of(LineTable::lnotab, table, 1, 0), 2);
  EXPECT_EQ(line_of(LineTable::lnotab, table, 1, 5), 2);
  EXPECT_EQ(line_of(LineTable::lnotab, table, 1, 6), 3);
  EXPECT_EQ(line_of(LineTable::lnotab, table, 1, 50), 8);
  EXPECT_EQ(line_of(LineTable::lnotab, table, 1, 62), 5);  // back, as in a loop
  EXPECT_EQ(line_of(LineTable::lnotab, table, 1, -1), 1);
}

TEST(LineTable, OfPython310IsPairsOfALengthAndAStep) {
  const auto table = bytes_of(
      "0401"
      "0280"
      "0602"
      "00fe"
      "08ff");
  EXPECT_EQ(line_of(LineTable::ranges, table, 10, 0), 11);
  EXPECT_EQ(line_of(LineTable::ranges, table, 10, 3), 11);
  EXPECT_EQ(line_of(LineTable::ranges, table, 10, 4), 0);  // no line
  EXPECT_EQ(line_of(LineTable::ranges, table, 10, 6), 13);
  EXPECT_EQ(line_of(LineTable::ranges, table, 10, 12), 10);  // 13 - 2 - 1: a step without a length
  EXPECT_EQ(line_of(LineTable::ranges, table, 10, 20), 0);
}

TEST(LineTable, ThatIsNoneHasNoLines) {
  for (const LineTable kind : {LineTable::ranges, LineTable::locations}) EXPECT_EQ(line_of(kind, {}, 5, 0), 0);
  EXPECT_EQ(line_of(LineTable::locations, bytes_of("00000000"), 5, 0), 0);
  EXPECT_EQ(line_of(LineTable::locations, bytes_of("e8ffffffffffffffffff"), 5, 0), 0);  // a number without an end
  EXPECT_EQ(line_of(LineTable::locations, bytes_of("e8"), 5, 0), 0);
  EXPECT_EQ(line_of(LineTable::lnotab, bytes_of("00"), -5, 0), 0);
  EXPECT_EQ(line_of(LineTable::lnotab, {}, 2'000'000'000, 0), 0);
}

}  // namespace
}  // namespace reveal::tests::line_table_test
