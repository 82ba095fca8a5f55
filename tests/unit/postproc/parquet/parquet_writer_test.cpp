#include "postproc/parquet/parquet_writer.h"

#include <gtest/gtest.h>

#include <limits>

#include "hdf5schema/version.h"

namespace reveal::tests::parquet_writer_test {
namespace {

constexpr double kMissingNumber = std::numeric_limits<double>::quiet_NaN();

/// Bytes by their hexadecimal digits; blanks are for the reader.
std::string bytes(std::string_view digits) {
  std::string text;
  int high = -1;
  for (const char letter : digits) {
    if (letter == ' ') continue;
    const int digit = letter <= '9' ? letter - '0' : letter - 'a' + 10;
    if (high < 0) {
      high = digit;
    } else {
      text += static_cast<char>(high << 4 | digit);
      high = -1;
    }
  }
  return text;
}

/// A file of gzip with one stored block: what libdeflate makes of a few bytes.
std::string stored(std::string_view length, std::string_view content, std::string_view checksum) {
  return bytes("1f8b08 00 00000000 00 ff 01") + bytes(length) + bytes(content) + bytes(checksum);
}

std::vector<ParquetColumn> one_of_each() {
  return {{"time", ParquetType::timestamp}, {"node", ParquetType::text}, {"x [s]", ParquetType::number}};
}

struct Written {
  std::string file;
  std::vector<std::size_t> sizes;  // size of the file after each end_rows()
};

/// A file with one row in each part: its time, its node, its number.
struct Row {
  std::int64_t time;
  std::string node;
  double number;
};
Written written(const std::vector<Row>& rows, std::size_t group_bytes) {
  Written result;
  ParquetWriter writer(
      one_of_each(), [&](std::string_view more) { result.file += more; }, group_bytes);
  for (const Row& row : rows) {
    writer.add_timestamps(0, {&row.time, 1});
    writer.add_repeated(1, row.node, 1);
    writer.add_numbers(2, {&row.number, 1});
    writer.end_rows(1);
    result.sizes.push_back(result.file.size());
  }
  writer.finish({});
  return result;
}

// Read back by DuckDB, arrow-rs and hyparquet as (1 s, n01, 1.5) and (1.1 s, n01, null), with k = v.
TEST(ParquetWriter, WritesEachByteAsTheFormatDefinesIt) {
  std::string file;
  ParquetWriter writer(one_of_each(), [&](std::string_view more) { file += more; });
  const std::int64_t times[] = {1'000'000, 1'100'000};
  const double numbers[] = {1.5, kMissingNumber};
  writer.add_timestamps(0, times);
  writer.add_repeated(1, "n01", 2);
  writer.add_numbers(2, numbers);
  writer.end_rows(2);
  writer.finish({{"k", "v"}});

  const std::string pages =
      // The page of `time`: 16 bytes, 39 compressed, 2 values, plain.
      bytes("1500 1520 154e 2c 1504 1500 1506 1506 00 00") +
      stored("1000efff", "40420f0000000000 e0c8100000000000", "a335d889 10000000") +
      // The dictionary of `node` has 1 text; its page has a run of 2 rows with index 0, each index of 32 bits.
      bytes("1504 150e 153c 4c 1502 1500 00 00") + stored("0700f8ff", "03000000 6e3031", "00155560 07000000") +
      bytes("1500 150c 153a 2c 1504 1510 1506 1506 00 00") + stored("0600f9ff", "20 04 00000000", "5502ee43 06000000") +
      // The page of `x [s]`: 4 bytes of levels, a run of 1 present and of 1 missing value, and the present one.
      bytes("1500 1520 154e 2c 1504 1500 1506 1506 00 00") +
      stored("1000efff", "04000000 0201 0200 000000000000f83f", "38d0c97b 10000000");
  const std::string schema = bytes("1504 194c 48 06") + "schema" + bytes("1506 00") +  // 3 columns
                             bytes("1504 2500 18 04") + "time" + bytes("2514 4c 8c 11 1c 2c 00 00 00 00 00") +
                             bytes("150c 2500 18 04") + "node" + bytes("2500 4c 1c 00 00 00") +
                             bytes("150a 2502 18 05") + "x [s]" + bytes("00");
  // Each chunk: type, encodings, name, codec, values, bytes plain and compressed, offsets, bounds.
  const std::string groups = bytes("1604 191c 193c") +  // 2 rows, 1 group, 3 chunks
                             bytes("2600 1c 1504 1925 00 06 1918 04") + "time" + bytes("1504 1604 1642 1670 2608") +
                             bytes("3c 3600 2808 e0c8100000000000 1808 40420f0000000000 00 00 00") +
                             bytes("2600 1c 150c 1935 00 06 10 1918 04") + "node" +
                             bytes("1504 1604 1656 16b201 26ce01 2678") +
                             bytes("1c 3600 2803 6e3031 1803 6e3031 00 00 00") +  //
                             bytes("2600 1c 150a 1925 00 06 1918 05") + "x [s]" + bytes("1504 1604 1642 1670 26aa02") +
                             bytes("3c 3602 2808 000000000000f83f 1808 000000000000f83f 00 00 00") +
                             bytes("16da01 1604 2608 169203 00");  // bytes plain, rows, begin, bytes
  const std::string version = std::string("reveal") + " version " + REVEAL_VERSION;
  const std::string footer = schema + groups + bytes("191c 18 01") + "k" + bytes("18 01") + "v" + bytes("00 18") +
                             static_cast<char>(version.size()) + version + bytes("193c 1c0000 1c0000 1c0000 00");
  EXPECT_EQ(footer.size(), 259 + version.size());
  EXPECT_EQ(file.substr(0, 4), "PAR1");
  EXPECT_EQ(file.substr(4, pages.size()), pages);
  EXPECT_EQ(file.substr(4 + pages.size(), footer.size()), footer);
  const std::string length{static_cast<char>(footer.size()), 1, 0, 0};
  EXPECT_EQ(file.substr(4 + pages.size() + footer.size()), length + "PAR1");
}

TEST(ParquetWriter, HasNoRowGroupWithoutRows) {
  const std::string file = written({}, 0).file;
  EXPECT_NE(file.find(bytes("1600 190c")), std::string::npos);  // 0 rows, 0 groups
}

TEST(ParquetWriter, WritesARowGroupWhenItsPagesAreLargeEnough) {
  const std::vector<Row> rows = {{1, "n01", 1}, {2, "n01", 2}, {3, "n02", 3}};
  const Written at_once = written(rows, 0);
  EXPECT_LT(at_once.sizes[0], at_once.sizes[1]);
  EXPECT_NE(at_once.file.find(bytes("1606 193c")), std::string::npos);  // 3 rows, 3 groups
  const Written together = written(rows, 1 << 20);
  EXPECT_EQ(together.sizes[2], 4U);                                      // "PAR1"
  EXPECT_NE(together.file.find(bytes("1606 191c")), std::string::npos);  // 3 rows, 1 group
}

TEST(ParquetWriter, HasTheTextsOfAGroupOnceInItsDictionary) {
  const std::string file = written({{1, "n01", 1}, {2, "n01", 2}, {3, "n02", 3}}, 1 << 20).file;
  const std::string both = bytes("03000000") + "n01" + bytes("03000000") + "n02";
  EXPECT_NE(file.find(both), std::string::npos);
  EXPECT_NE(file.find(bytes("20 02 01000000")), std::string::npos);                        // one row with the second
  EXPECT_NE(file.find(bytes("2803") + "n02" + bytes("1803") + "n01"), std::string::npos);  // bounds
}

TEST(ParquetWriter, HasNoBoundsOfAColumnWithoutValues) {
  const std::string file = written({{1, "n01", kMissingNumber}}, 1 << 20).file;
  EXPECT_NE(file.find(bytes("3c 3602 00 00 00")), std::string::npos);  // one null and nothing else
}

TEST(ParquetWriter, BoundsZeroBySignsThatIncludeBothZeros) {
  for (const double zero : {0.0, -0.0}) {
    const std::string file = written({{1, "n01", zero}}, 1 << 20).file;
    EXPECT_NE(file.find(bytes("3600 2808 0000000000000000 1808 0000000000000080")), std::string::npos) << zero;
  }
}

}  // namespace
}  // namespace reveal::tests::parquet_writer_test
