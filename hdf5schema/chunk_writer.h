// Chunks written as they are, past HDF5's own pipeline and its cache: a flush costs only the changed chunks. Under an
// Hdf5Access; H5::Exception where HDF5 refuses. https://docs.hdfgroup.org/hdf5/v1_14/group___h5_d.html (H5Dwrite_chunk)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hdf5schema/chunk_codec.h"
#include "hdf5schema/hdf5_objects.h"
#include "hdf5schema/stored_chunks.h"

namespace reveal {

class ChunkWriter {
 public:
  /// temporary only for as much as a rewrite will take (kCompactValues), and live from then on.
  explicit ChunkWriter(ChunkCodec::Effort effort) : effort_(effort) {}

  /// A chunk in which no channel changed, as it was encoded: half of the families of a quiet host have no others.
  struct Steady {
    std::vector<std::int64_t> values;  // one per channel; empty: there was none
    std::vector<unsigned char> bytes;
    std::uint32_t skipped_filters = 0;
  };
  struct Shape {
    std::size_t channels = 1;
    std::size_t rows = 1;
    std::int64_t missing = 0;  // the content of a chunk beyond the given values
  };

  /// [channel][rows] at the row `first_row` of a dataset [channel, row] in chunks of `shape`. One in which everything
  /// is missing is not written. `stored`: counts those that are. `steady`: of this dataset, kept from call to call;
  /// may be null.
  void write(const H5::DataSet& dataset, const Shape& shape, std::span<const std::int64_t> values, std::size_t rows,
             std::size_t first_row, StoredChunks& stored, Steady* steady);
  /// A whole chunk at `offset`.
  void write_whole(const H5::DataSet& dataset, std::span<const std::int64_t> chunk, const Hdf5Size* offset);
  /// Frees half a megabyte until the next call, which is a flush away.
  void give_back_memory() noexcept;

 private:
  [[nodiscard]] ChunkCodec::Chunk encode(std::span<const std::int64_t> values);

  ChunkCodec::Effort effort_;
  std::uint64_t values_written_ = 0;
  std::optional<ChunkCodec> codec_;
  std::vector<std::int64_t> chunk_;
};

}  // namespace reveal
