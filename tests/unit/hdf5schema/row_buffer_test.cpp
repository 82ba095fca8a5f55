#include "hdf5schema/row_buffer.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace reveal::tests::row_buffer_test {
namespace {

/// One family of one channel; kMissing stands for a row without a value.
RowBuffer rows_of(std::initializer_list<std::int64_t> values) {
  RowBuffer buffer(values.size());
  buffer.add_family(1);
  std::int64_t time = 0;
  for (const std::int64_t value : values) {
    buffer.begin_row(++time);
    buffer.fill_row(0)[0] = value;
  }
  return buffer;
}

std::vector<std::int64_t> absolute(const EncodedRows& rows, std::int64_t next_base, bool first) {
  std::vector<std::int64_t> values(rows.values.size());
  decode_absolute(rows.values, rows.bases[0], next_base, first, values);
  return values;
}

TEST(Increments, CountFromTheFirstValue) {
  std::vector<std::int64_t> previous;
  EncodedRows out;
  encode_increments(rows_of({100, 103, 103, 110}), 0, 1, previous, out);
  EXPECT_EQ(out.values, (std::vector<std::int64_t>{kMissing, 3, 0, 7}));
  EXPECT_EQ(out.bases, std::vector<std::int64_t>{100});
  EXPECT_EQ(absolute(out, kMissing, true), (std::vector<std::int64_t>{100, 103, 103, 110}));
}

TEST(Increments, GoOnInTheNextChunk) {
  std::vector<std::int64_t> previous = {100};
  EncodedRows out;
  encode_increments(rows_of({104, 105}), 0, 1, previous, out);
  EXPECT_EQ(out.values, (std::vector<std::int64_t>{4, 1}));
  EXPECT_EQ(out.bases, std::vector<std::int64_t>{100});
  EXPECT_EQ(previous, std::vector<std::int64_t>{105});
  EXPECT_EQ(absolute(out, kMissing, false), (std::vector<std::int64_t>{104, 105}));
}

TEST(Increments, CoverAGap) {
  std::vector<std::int64_t> previous = {100};
  EncodedRows out;
  encode_increments(rows_of({101, kMissing, 110, 111}), 0, 1, previous, out);
  EXPECT_EQ(out.values, (std::vector<std::int64_t>{1, kMissing, 9, 1}));
  EXPECT_EQ(absolute(out, 111, false), (std::vector<std::int64_t>{101, kMissing, 110, 111}));
}

TEST(Increments, AreMissingWhereACounterWentBack) {
  std::vector<std::int64_t> previous = {100};
  EncodedRows out;
  encode_increments(rows_of({105, 2, 6}), 0, 1, previous, out);
  EXPECT_EQ(out.values, (std::vector<std::int64_t>{5, kMissing, 4}));
  EXPECT_EQ(out.bases, std::vector<std::int64_t>{100});
  EXPECT_EQ(previous, std::vector<std::int64_t>{6});
  // Counted back from the next base; without one nothing is claimed behind the reset.
  EXPECT_EQ(absolute(out, 6, false), (std::vector<std::int64_t>{105, kMissing, 6}));
  EXPECT_EQ(absolute(out, kMissing, false), (std::vector<std::int64_t>{105, kMissing, kMissing}));
}

TEST(Increments, DoNotOverflow) {
  std::vector<std::int64_t> previous = {std::numeric_limits<std::int64_t>::min() + 1};
  EncodedRows out;
  encode_increments(rows_of({std::numeric_limits<std::int64_t>::max(), kMissing}), 0, 1, previous, out);
  EXPECT_EQ(out.values, (std::vector<std::int64_t>{kMissing, kMissing}));
  std::vector<std::int64_t> values(2);
  const std::vector<std::int64_t> huge = {std::numeric_limits<std::int64_t>::max(), 1};
  decode_absolute(huge, 5, 7, false, values);
  EXPECT_EQ(values, (std::vector<std::int64_t>{kMissing, kMissing}));
}

TEST(Levels, AreMissingWhereTheFamilyWasNotRead) {
  RowBuffer buffer(2);
  buffer.add_family(1);
  buffer.begin_row(1);
  buffer.begin_row(2);
  buffer.fill_row(0)[0] = 7;
  EncodedRows out;
  encode_levels(buffer, 0, 1, kMissing, out);
  EXPECT_EQ(out.values, (std::vector<std::int64_t>{kMissing, 7}));
}

TEST(RowBuffer, KeepsItsRowsWhenItGetsWider) {
  RowBuffer buffer(2);
  buffer.add_family(1);
  buffer.begin_row(1);
  buffer.fill_row(0)[0] = 7;
  buffer.widen(0, 3);
  buffer.begin_row(2);
  buffer.fill_row(0)[2] = 9;
  EXPECT_EQ(buffer.row(0, 0)[0], 7);
  EXPECT_EQ(buffer.row(0, 0)[1], kMissing);
  EXPECT_EQ(buffer.row(0, 1)[2], 9);
  EXPECT_TRUE(buffer.full());
}

}  // namespace
}  // namespace reveal::tests::row_buffer_test
