#include "postproc/parquet/thrift_struct.h"

#include <gtest/gtest.h>

#include <functional>

namespace reveal::tests::thrift_struct_test {
namespace {

using namespace std::string_literals;

/// The expected bytes follow the examples of thrift-compact-protocol.md.
std::string written(const std::function<void(ThriftStruct&)>& fill) {
  std::string bytes;
  ThriftStruct::append(bytes, fill);
  return bytes;
}

TEST(ThriftStruct, WritesVariableLengthNumbers) {
  std::string bytes;
  append_varint(bytes, 0);
  append_varint(bytes, 127);
  append_varint(bytes, 128);
  append_varint(bytes, 50399);
  append_varint(bytes, UINT64_MAX);
  EXPECT_EQ(bytes, "\x00\x7F\x80\x01\xDF\x89\x03\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"s);
}

TEST(ThriftStruct, WritesNumbersOfEitherSign) {
  EXPECT_EQ(written([](ThriftStruct& fields) {
              fields.add_int32(1, 1);
              fields.add_int32(3, -1);
              fields.add_int64(4, INT64_MIN);
            }),
            "\x15\x02\x25\x01\x16\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01\x00"s);
}

TEST(ThriftStruct, WritesFlagsInTheHeadOfTheirField) {
  EXPECT_EQ(written([](ThriftStruct& fields) {
              fields.add_flag(1, true);
              fields.add_flag(15, false);
            }),
            "\x11\xE2\x00"s);
}

TEST(ThriftStruct, WritesTextsBehindTheirLengths) {
  EXPECT_EQ(written([](ThriftStruct& fields) {
              fields.add_text(4, "ab");
              fields.add_text(5, "");
              fields.add_one_text(6, "c");
            }),
            "\x48\x02"
            "ab\x18\x00\x19\x18\x01"
            "c\x00"s);
}

TEST(ThriftStruct, CountsTheFieldsOfAnInnerStructAnew) {
  EXPECT_EQ(written([](ThriftStruct& fields) {
              fields.add_struct(10, [](ThriftStruct& inner) { inner.add_empty_struct(8); });
              fields.add_int32(11, 0);
            }),
            "\xAC\x8C\x00\x00\x15\x00\x00"s);
}

TEST(ThriftStruct, WritesListsWithTheirCountBehindTheTypeFrom15On) {
  EXPECT_EQ(written([](ThriftStruct& fields) { fields.add_int32s(2, {0, 3, 8}); }), "\x29\x35\x00\x06\x10\x00"s);
  EXPECT_EQ(written([](ThriftStruct& fields) { fields.add_written_structs(1, 0, ""); }), "\x19\x0C\x00"s);
  EXPECT_EQ(written([](ThriftStruct& fields) {
              fields.add_structs(1, std::vector<int>(15, 7),
                                 [](ThriftStruct& element, int item) { element.add_int32(1, item); });
            }).substr(0, 6),
            "\x19\xFC\x0F\x15\x0E\x00"s);
}

}  // namespace
}  // namespace reveal::tests::thrift_struct_test
