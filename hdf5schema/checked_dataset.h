// A dataset of a file from an untrusted source, read without the library's filters: a chunk is taken as it is stored,
// its checksum and its length are checked, and nothing comes out that was not in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hdf5schema/byte_buffer.h"
#include "hdf5schema/hdf5_objects.h"
#include "hdf5schema/number_chunk.h"

namespace reveal {

/// The largest chunk in bytes; no trace has larger ones.
inline constexpr std::size_t kLargestChunk = std::size_t{64} << 20;

class CheckedDataset {
 public:
  /// `path` leads there by hard links of this file only. Throws Error: another shape than a table or [channel, time],
  /// data outside the file (external, virtual), filters that no trace has, elements that point elsewhere.
  CheckedDataset(const H5::H5File& file, const std::string& path);
  ~CheckedDataset();  // NOLINT(bugprone-exception-escape)
  CheckedDataset(CheckedDataset&&) noexcept;

  [[nodiscard]] std::span<const Hdf5Size> extent() const noexcept;  // for one or two dimensions
  [[nodiscard]] std::span<const Hdf5Size> chunk() const noexcept;   // empty: not in chunks
  [[nodiscard]] std::size_t width() const noexcept;                 // bytes of an element
  [[nodiscard]] bool holds_int64() const noexcept;
  [[nodiscard]] bool holds_float64() const noexcept;
  [[nodiscard]] bool holds_text() const noexcept;  // for text of fixed length
  [[nodiscard]] const H5::DataSet& dataset() const noexcept;

  /// Where the records of a table have a member. Throws Error if there is none of this kind.
  struct Column {
    std::size_t offset = 0;
    std::size_t width = 0;
  };
  [[nodiscard]] Column text_column(const char* name) const;
  [[nodiscard]] Column int64_column(const char* name) const;
  [[nodiscard]] bool has_column(const char* name) const;

  /// The first `length` elements of a table. Throws Error if some of them are not in the file.
  [[nodiscard]] std::vector<char> read(Hdf5Size length) const;
  /// The same piece by piece, in order.
  void read(Hdf5Size length, const std::function<void(std::span<const char>)>& take) const;

  /// The chunk at `offset` as it was before the filters; false if it is not stored.
  bool read_chunk(const Hdf5Size* offset, ByteBuffer& bytes) const;
  /// The same of a dataset of 64-bit numbers. After an exception, `chunk` has nothing that is worth reading.
  void read_numbers(const Hdf5Size* offset, NumberChunk& chunk) const;
  /// Its checksum, verified; nothing if it is not stored. Only for datasets with checksums.
  [[nodiscard]] std::optional<std::uint32_t> checksum(const Hdf5Size* offset) const;
  [[nodiscard]] bool has_checksums() const noexcept;
  /// The state of a chunk at the end of a file that was not closed: stored and right, not stored, or neither.
  enum class Chunk : std::uint8_t { whole, absent, broken };
  [[nodiscard]] Chunk state(const Hdf5Size* offset) const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reveal
