#include "hdf5schema/chunk_writer.h"

#include <H5Cpp.h>

#include <algorithm>

#include "hdf5schema/hdf5_access.h"
#include "hdf5schema/layout.h"
#include "hdf5schema/trace.h"

namespace reveal {
namespace {

void put(const H5::DataSet& dataset, const ChunkCodec::Chunk& chunk, const hsize_t* offset) {
  check_hdf5(H5Dwrite_chunk(dataset.getId(), H5P_DEFAULT, chunk.skipped_filters, offset, chunk.bytes.size(),
                            chunk.bytes.data()),
             "H5Dwrite_chunk");
}

/// At [channel, row] of a family.
void put(const H5::DataSet& dataset, const ChunkCodec::Chunk& chunk, const hsize_t* offset, StoredChunks& stored) {
  put(dataset, chunk, offset);
  stored.add(offset[1], offset[0], checksum_of(chunk.bytes));
}

/// True if each channel of [channel][rows] has one value in all rows.
bool is_steady(std::span<const std::int64_t> values, std::size_t rows) {
  for (std::size_t first = 0; first < values.size(); first += rows) {
    const auto channel = values.subspan(first, rows);
    if (std::any_of(channel.begin(), channel.end(), [&](std::int64_t value) { return value != channel.front(); }))
      return false;
  }
  return true;
}

/// True if every row equals `values`.
bool holds(const ChunkWriter::Steady& steady, std::span<const std::int64_t> values, std::size_t rows) {
  if (steady.values.size() * rows != values.size()) return false;
  for (std::size_t channel = 0; channel < steady.values.size(); ++channel) {
    if (steady.values[channel] != values[channel * rows]) return false;
  }
  return true;
}

void keep(ChunkWriter::Steady& steady, std::span<const std::int64_t> values, std::size_t rows,
          const ChunkCodec::Chunk& encoded) {
  steady.values.resize(values.size() / rows);
  for (std::size_t channel = 0; channel < steady.values.size(); ++channel)
    steady.values[channel] = values[channel * rows];
  steady.bytes.assign(encoded.bytes.begin(), encoded.bytes.end());
  steady.skipped_filters = encoded.skipped_filters;
}

}  // namespace

void ChunkWriter::write(const H5::DataSet& dataset, const Shape& shape, std::span<const std::int64_t> values,
                        std::size_t rows, std::size_t first_row, StoredChunks& stored, Steady* steady) {
  if (values.empty()) return;
  const std::size_t channels = values.size() / rows;
  for (std::size_t first = 0; first < channels; first += shape.channels) {
    const std::size_t count = std::min(shape.channels, channels - first);
    const auto part = values.subspan(first * rows, count * rows);
    const auto is_missing = [&shape](std::int64_t value) { return value == shape.missing; };
    const bool unchanged = is_steady(part, rows);
    if (unchanged && std::all_of(part.begin(), part.end(), is_missing)) continue;
    values_written_ += part.size();
    const hsize_t offset[2] = {first, first_row};
    const bool reusable = steady != nullptr && unchanged && rows == shape.rows && count == channels;
    if (reusable && holds(*steady, part, rows)) {
      put(dataset, {steady->bytes, steady->skipped_filters}, offset, stored);
      continue;
    }
    chunk_.assign(shape.channels * shape.rows, shape.missing);
    for (std::size_t channel = 0; channel < count; ++channel)
      std::copy_n(part.begin() + static_cast<std::ptrdiff_t>(channel * rows), rows,
                  chunk_.begin() + static_cast<std::ptrdiff_t>(channel * shape.rows));
    const ChunkCodec::Chunk encoded = encode(chunk_);
    put(dataset, encoded, offset, stored);
    if (reusable) keep(*steady, part, rows, encoded);
  }
}

void ChunkWriter::write_whole(const H5::DataSet& dataset, std::span<const std::int64_t> chunk, const Hdf5Size* offset) {
  put(dataset, encode(chunk), offset);
}

void ChunkWriter::give_back_memory() noexcept {
  chunk_ = {};
  if (codec_) codec_->give_back_memory();
}

ChunkCodec::Chunk ChunkWriter::encode(std::span<const std::int64_t> values) {
  using Effort = ChunkCodec::Effort;
  if (effort_ == Effort::temporary && values_written_ > kCompactValues) {
    effort_ = Effort::live;
    codec_.reset();
  }
  if (!codec_) codec_.emplace(effort_);
  return codec_->encode(values);
}

}  // namespace reveal
