#include "postproc/parquet/thrift_struct.h"

#include <algorithm>

namespace reveal {
namespace {

/// Numbers near 0 are short, of either sign: 0, -1, 1, -2 become 0, 1, 2, 3.
std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}

void append_sized(std::string& out, std::string_view text) {
  append_varint(out, text.size());
  out += text;
}

}  // namespace

void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  out += static_cast<char>(value);
}

void ThriftStruct::begin_field(int id, Type type) {
  out_ += static_cast<char>((id - last_id_) << 4 | type);
  last_id_ = id;
}

void ThriftStruct::begin_list(int id, Type of, std::size_t count) {
  constexpr std::size_t kCountFollows = 15;
  begin_field(id, kList);
  out_ += static_cast<char>(std::min(count, kCountFollows) << 4 | of);
  if (count >= kCountFollows) append_varint(out_, count);
}

void ThriftStruct::add_flag(int id, bool value) {
  begin_field(id, value ? kTrue : kFalse);
}

void ThriftStruct::add_int32(int id, std::int32_t value) {
  begin_field(id, kInt32);
  append_varint(out_, zigzag(value));
}

void ThriftStruct::add_int64(int id, std::int64_t value) {
  begin_field(id, kInt64);
  append_varint(out_, zigzag(value));
}

void ThriftStruct::add_text(int id, std::string_view value) {
  begin_field(id, kBinary);
  append_sized(out_, value);
}

void ThriftStruct::add_written_structs(int id, std::size_t count, std::string_view written) {
  begin_list(id, kStruct, count);
  out_ += written;
}

void ThriftStruct::add_int32s(int id, std::initializer_list<std::int32_t> values) {
  begin_list(id, kInt32, values.size());
  for (const std::int32_t value : values) append_varint(out_, zigzag(value));
}

void ThriftStruct::add_one_text(int id, std::string_view value) {
  begin_list(id, kBinary, 1);
  append_sized(out_, value);
}

}  // namespace reveal
