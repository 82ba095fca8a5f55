// Apache Thrift's compact protocol, only writing, and only the types that the metadata of a Parquet file has.
// https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace reveal {

/// An unsigned number, seven bits in a byte, the lowest first; the eighth bit: more follow.
void append_varint(std::string& out, std::uint64_t value);

/// The fields of one struct, which are added in the order of their ids, at most 15 apart.
class ThriftStruct {
 public:
  explicit ThriftStruct(std::string& out) : out_(out) {}

  /// A struct as an element of a list, or one that is in no other.
  template <typename Fill>
  static void append(std::string& out, const Fill& fill) {
    ThriftStruct fields(out);
    fill(fields);
    out += '\0';
  }

  void add_flag(int id, bool value);
  void add_int32(int id, std::int32_t value);
  void add_int64(int id, std::int64_t value);
  void add_text(int id, std::string_view value);
  template <typename Fill>
  void add_struct(int id, const Fill& fill) {
    begin_field(id, kStruct);
    append(out_, fill);
  }
  void add_empty_struct(int id) {
    add_struct(id, [](ThriftStruct&) {});
  }
  /// A list of structs; calls `fill` with each struct and its item.
  template <typename Items, typename Fill>
  void add_structs(int id, const Items& items, const Fill& fill) {
    begin_list(id, kStruct, items.size());
    for (const auto& item : items) {
      append(out_, [&](ThriftStruct& fields) { fill(fields, item); });
    }
  }
  /// A list of structs that were written before, one behind the other.
  void add_written_structs(int id, std::size_t count, std::string_view written);
  void add_int32s(int id, std::initializer_list<std::int32_t> values);
  void add_one_text(int id, std::string_view value);  // a list of one text

 private:
  enum Type : std::uint8_t { kTrue = 1, kFalse = 2, kInt32 = 5, kInt64 = 6, kBinary = 8, kList = 9, kStruct = 12 };

  void begin_field(int id, Type type);
  void begin_list(int id, Type of, std::size_t count);

  std::string& out_;
  int last_id_ = 0;
};

}  // namespace reveal
