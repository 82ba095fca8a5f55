#include "postproc/parquet/parquet_writer.h"

#include <libdeflate.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/version.h"
#include "postproc/parquet/thrift_struct.h"

namespace reveal {
namespace {

// Words of parquet.thrift.
constexpr std::string_view kMagic = "PAR1";
constexpr std::int32_t kRequired = 0, kOptional = 1;
constexpr std::int32_t kPlain = 0, kRle = 3, kRleDictionary = 8;
constexpr std::int32_t kGzip = 2;
constexpr std::int32_t kDataPage = 0, kDictionaryPage = 2;
constexpr std::int32_t kNotConverted = -1;

constexpr int kDeflateLevel = 6;

struct TypeWords {
  std::int32_t physical;
  std::int32_t repetition;
  std::int32_t converted;  // for readers older than logical types
  std::int32_t encoding;
};
constexpr TypeWords kTypeWords[] = {
    {.physical = 2, .repetition = kRequired, .converted = 10, .encoding = kPlain},            // timestamp
    {.physical = 6, .repetition = kRequired, .converted = 0, .encoding = kRleDictionary},     // text
    {.physical = 5, .repetition = kOptional, .converted = kNotConverted, .encoding = kPlain}  // number
};

const TypeWords& words_of(ParquetType type) {
  return kTypeWords[static_cast<std::size_t>(type)];
}

template <typename Number>
void append_plain(std::string& out, Number value) {
  static_assert(std::endian::native == std::endian::little);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

/// Runs of "there" (1) and "missing" (0).
void append_definition_levels(std::string& body, std::span<const double> values) {
  std::string runs;
  for (std::size_t begin = 0; begin < values.size();) {
    const bool missing = std::isnan(values[begin]);
    std::size_t end = begin + 1;
    while (end < values.size() && std::isnan(values[end]) == missing) ++end;
    append_varint(runs, (end - begin) << 1);
    runs += missing ? '\0' : '\1';
    begin = end;
  }
  append_plain(body, static_cast<std::uint32_t>(runs.size()));
  body += runs;
}

/// A bound as it is stored; a zero has the sign that includes the other zero.
struct StoredBound {
  double zero;

  std::string operator()(std::int64_t value) const {
    std::string bytes;
    append_plain(bytes, value);
    return bytes;
  }
  std::string operator()(double value) const {
    std::string bytes;
    append_plain(bytes, value == 0 ? zero : value);
    return bytes;
  }
  std::string operator()(const std::string& value) const { return value; }
};

void add_schema_column(ThriftStruct& element, const ParquetColumn& column) {
  const TypeWords& words = words_of(column.type);
  element.add_int32(1, words.physical);
  element.add_int32(3, words.repetition);
  element.add_text(4, column.name);
  if (words.converted != kNotConverted) element.add_int32(6, words.converted);
  if (column.type == ParquetType::text) {
    element.add_struct(10, [](ThriftStruct& logical) { logical.add_empty_struct(1); });
  } else if (column.type == ParquetType::timestamp) {
    element.add_struct(10, [](ThriftStruct& logical) {
      logical.add_struct(8, [](ThriftStruct& timestamp) {
        timestamp.add_flag(1, true);  // UTC
        timestamp.add_struct(2, [](ThriftStruct& unit) { unit.add_empty_struct(2); });
      });
    });
  }
}

std::int32_t page_number(std::size_t value) {
  if (value > std::numeric_limits<std::int32_t>::max()) throw Error("a page of a Parquet file would be too large");
  return static_cast<std::int32_t>(value);
}

}  // namespace

struct ParquetWriter::Page {
  std::int32_t type;
  std::size_t values;
  std::int32_t encoding;
};

void ParquetWriter::FreeCompressor::operator()(libdeflate_compressor* compressor) const {
  libdeflate_free_compressor(compressor);
}

ParquetWriter::ParquetWriter(std::vector<ParquetColumn> columns, Out out, std::size_t group_bytes)
    : columns_(std::move(columns)),
      out_(std::move(out)),
      group_bytes_(group_bytes),
      compressor_(libdeflate_alloc_compressor(kDeflateLevel)),
      chunks_(columns_.size()) {
  if (!compressor_) throw std::bad_alloc();
  write(kMagic);
}

void ParquetWriter::Chunk::widen(Value value) {
  if (!least || value < *least) least = value;
  if (!most || *most < value) most = std::move(value);
}

void ParquetWriter::add_timestamps(std::size_t column, std::span<const std::int64_t> utc_us) {
  Chunk& chunk = chunks_[column];
  body_.clear();
  for (const std::int64_t time : utc_us) append_plain(body_, time);
  if (!utc_us.empty()) {
    const auto [least, most] = std::minmax_element(utc_us.begin(), utc_us.end());
    chunk.widen(*least);
    chunk.widen(*most);
  }
  add_page(column, utc_us.size());
}

void ParquetWriter::add_repeated(std::size_t column, const std::string& text, std::size_t rows) {
  constexpr char kIndexBits = 32;
  Chunk& chunk = chunks_[column];
  if (chunk.texts.empty() || chunk.texts.back() != text) chunk.texts.push_back(text);
  chunk.widen(text);
  body_.assign(1, kIndexBits);
  append_varint(body_, rows << 1);
  append_plain(body_, static_cast<std::uint32_t>(chunk.texts.size() - 1));
  add_page(column, rows);
}

void ParquetWriter::add_numbers(std::size_t column, std::span<const double> values) {
  Chunk& chunk = chunks_[column];
  body_.clear();
  append_definition_levels(body_, values);
  std::size_t present = 0;
  double least = 0, most = 0;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    append_plain(body_, value);
    least = present == 0 ? value : std::min(least, value);
    most = present == 0 ? value : std::max(most, value);
    ++present;
  }
  if (present > 0) {
    chunk.widen(least);
    chunk.widen(most);
  }
  chunk.nulls += static_cast<std::int64_t>(values.size() - present);
  add_page(column, values.size());
}

void ParquetWriter::end_rows(std::size_t rows) {
  rows_ += static_cast<std::int64_t>(rows);
  group_rows_ += static_cast<std::int64_t>(rows);
  std::size_t waiting = 0;
  for (const Chunk& chunk : chunks_) waiting += chunk.pages.size();
  if (waiting > group_bytes_) write_group();
}

void ParquetWriter::finish(const Metadata& metadata) {
  if (group_rows_ > 0) write_group();
  std::string footer;
  ThriftStruct::append(footer, [&](ThriftStruct& file) {
    constexpr std::int32_t kVersion = 2;
    file.add_int32(1, kVersion);
    std::string schema;
    ThriftStruct::append(schema, [&](ThriftStruct& root) {
      root.add_text(4, "schema");
      root.add_int32(5, page_number(columns_.size()));
    });
    for (const ParquetColumn& column : columns_) {
      ThriftStruct::append(schema, [&](ThriftStruct& element) { add_schema_column(element, column); });
    }
    file.add_written_structs(2, 1 + columns_.size(), schema);
    file.add_int64(3, rows_);
    file.add_written_structs(4, group_count_, groups_);
    file.add_structs(5, metadata, [](ThriftStruct& pair, const Metadata::value_type& entry) {
      pair.add_text(1, entry.first);
      pair.add_text(2, entry.second);
    });
    file.add_text(6, std::string("reveal") + " version " + REVEAL_VERSION);
    file.add_structs(7, columns_, [](ThriftStruct& order, const ParquetColumn&) { order.add_empty_struct(1); });
  });
  append_plain(footer, static_cast<std::uint32_t>(page_number(footer.size())));
  write(footer);
  write(kMagic);
}

void ParquetWriter::write(std::string_view bytes) {
  out_(bytes);
  offset_ += static_cast<std::int64_t>(bytes.size());
}

void ParquetWriter::append_page(Chunk& chunk, std::string& pages, const Page& page) {
  packed_.resize(libdeflate_gzip_compress_bound(compressor_.get(), body_.size()));
  packed_.resize(
      libdeflate_gzip_compress(compressor_.get(), body_.data(), body_.size(), packed_.data(), packed_.size()));
  const std::size_t begin = pages.size();
  ThriftStruct::append(pages, [&](ThriftStruct& header) {
    header.add_int32(1, page.type);
    header.add_int32(2, page_number(body_.size()));
    header.add_int32(3, page_number(packed_.size()));
    header.add_struct(page.type == kDataPage ? 5 : 7, [&](ThriftStruct& more) {
      more.add_int32(1, page_number(page.values));
      more.add_int32(2, page.encoding);
      if (page.type != kDataPage) return;
      more.add_int32(3, kRle);  // definition levels
      more.add_int32(4, kRle);  // repetition levels, of which there are none
    });
  });
  chunk.plain_bytes += static_cast<std::int64_t>(pages.size() - begin + body_.size());
  pages += packed_;
}

void ParquetWriter::add_page(std::size_t column, std::size_t rows) {
  Chunk& chunk = chunks_[column];
  append_page(chunk, chunk.pages,
              {.type = kDataPage, .values = rows, .encoding = words_of(columns_[column].type).encoding});
  chunk.values += static_cast<std::int64_t>(rows);
}

/// "" for columns without a dictionary.
std::string ParquetWriter::dictionary_page(Chunk& chunk) {
  std::string page;
  if (chunk.texts.empty()) return page;
  body_.clear();
  for (const std::string& text : chunk.texts) {
    append_plain(body_, static_cast<std::uint32_t>(text.size()));
    body_ += text;
  }
  append_page(chunk, page, {.type = kDictionaryPage, .values = chunk.texts.size(), .encoding = kPlain});
  return page;
}

void ParquetWriter::write_group() {
  const std::int64_t begin = offset_;
  std::int64_t plain_bytes = 0;
  std::string written;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    Chunk& chunk = chunks_[i];
    const std::string dictionary = dictionary_page(chunk);
    const std::int64_t chunk_begin = offset_;
    write(dictionary);
    write(chunk.pages);
    plain_bytes += chunk.plain_bytes;
    ThriftStruct::append(written, [&](ThriftStruct& place) {
      place.add_int64(2, 0);  // no metadata outside the footer
      place.add_struct(
          3, [&](ThriftStruct& meta) { describe_chunk(meta, columns_[i], chunk, chunk_begin, dictionary.size()); });
    });
    chunk = Chunk();
  }
  ThriftStruct::append(groups_, [&](ThriftStruct& group) {
    group.add_written_structs(1, columns_.size(), written);
    group.add_int64(2, plain_bytes);
    group.add_int64(3, group_rows_);
    group.add_int64(5, begin);
    group.add_int64(6, offset_ - begin);
  });
  ++group_count_;
  group_rows_ = 0;
}

void ParquetWriter::describe_chunk(ThriftStruct& meta, const ParquetColumn& column, const Chunk& chunk,
                                   std::int64_t begin, std::size_t dictionary_bytes) {
  const TypeWords& words = words_of(column.type);
  meta.add_int32(1, words.physical);
  if (words.encoding == kPlain) {
    meta.add_int32s(2, {kPlain, kRle});
  } else {
    meta.add_int32s(2, {kPlain, kRle, words.encoding});
  }
  meta.add_one_text(3, column.name);
  meta.add_int32(4, kGzip);
  meta.add_int64(5, chunk.values);
  meta.add_int64(6, chunk.plain_bytes);
  meta.add_int64(7, static_cast<std::int64_t>(dictionary_bytes + chunk.pages.size()));
  meta.add_int64(9, begin + static_cast<std::int64_t>(dictionary_bytes));
  if (dictionary_bytes > 0) meta.add_int64(11, begin);
  meta.add_struct(12, [&](ThriftStruct& statistics) {
    statistics.add_int64(3, chunk.nulls);
    if (!chunk.most) return;
    statistics.add_text(5, std::visit(StoredBound{+0.0}, *chunk.most));
    statistics.add_text(6, std::visit(StoredBound{-0.0}, *chunk.least));
  });
}

}  // namespace reveal
