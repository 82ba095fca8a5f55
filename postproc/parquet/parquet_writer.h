// Writes a table as a Parquet file, from its first to its last byte without seeking, in bounded memory: for exports
// into a pipe. https://parquet.apache.org/docs/file-format/, field numbers: parquet.thrift of parquet-format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

struct libdeflate_compressor;

namespace reveal {

class ThriftStruct;

enum class ParquetType : std::uint8_t {
  timestamp,  // microseconds, UTC
  text,       // UTF-8
  number,     // double, optional
};

struct ParquetColumn {
  std::string name;  // UTF-8
  ParquetType type = ParquetType::number;
};

class ParquetWriter {
 public:
  using Out = std::function<void(std::string_view)>;
  using Metadata = std::vector<std::pair<std::string, std::string>>;

  /// A row group is written when its compressed pages exceed `group_bytes`.
  ParquetWriter(std::vector<ParquetColumn> columns, Out out, std::size_t group_bytes = std::size_t{32} << 20);

  /// The next rows are added column by column, at most 16 million at a time; then end_rows() is called.
  void add_timestamps(std::size_t column, std::span<const std::int64_t> utc_us);
  void add_repeated(std::size_t column, const std::string& text, std::size_t rows);
  void add_numbers(std::size_t column, std::span<const double> values);  // NaN: null
  void end_rows(std::size_t rows);

  /// Writes the rest; without it, no program can read the file. Throws Error if the metadata is too large for the
  /// format.
  void finish(const Metadata& metadata);

 private:
  using Value = std::variant<std::int64_t, double, std::string>;

  /// The part of a column in the present row group.
  struct Chunk {
    std::string pages;
    std::int64_t values = 0;
    std::int64_t nulls = 0;
    std::int64_t plain_bytes = 0;  // before compression
    std::optional<Value> least, most;
    std::vector<std::string> texts;  // its dictionary

    void widen(Value value);
  };
  struct Page;
  struct FreeCompressor {
    void operator()(libdeflate_compressor* compressor) const;
  };

  void write(std::string_view bytes);
  void append_page(Chunk& chunk, std::string& pages, const Page& page);
  void add_page(std::size_t column, std::size_t rows);
  [[nodiscard]] std::string dictionary_page(Chunk& chunk);
  void write_group();
  static void describe_chunk(ThriftStruct& meta, const ParquetColumn& column, const Chunk& chunk, std::int64_t begin,
                             std::size_t dictionary_bytes);

  std::vector<ParquetColumn> columns_;
  Out out_;
  std::size_t group_bytes_;
  std::unique_ptr<libdeflate_compressor, FreeCompressor> compressor_;
  std::vector<Chunk> chunks_;
  std::string body_;    // the next page
  std::string packed_;  // the same, compressed
  std::int64_t offset_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t group_rows_ = 0;
  std::string groups_;  // metadata of the written groups
  std::size_t group_count_ = 0;
};

}  // namespace reveal
