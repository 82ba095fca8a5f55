// The memory between the sampler and the file: whole ticks as they come, a chunk of them at a time, without HDF5.
// RowBuffer is filled by the sampler (row by row, no allocation); encode_increments() and encode_levels() turn it into
// the contents of a chunk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hdf5schema/vocabulary.h"

namespace reveal {

/// Rows of all families that share a time axis. float64 values are kept as their bits.
class RowBuffer {
 public:
  explicit RowBuffer(std::size_t max_rows);

  /// Makes space for `width` channels of the next family, or of an existing one that grew. Allocates. `missing`: the
  /// value of a channel in rows before it existed.
  void add_family(std::size_t width, std::int64_t missing = kMissing);
  void widen(std::size_t family, std::size_t width);
  [[nodiscard]] std::size_t width(std::size_t family) const noexcept { return families_[family].width; }

  void clear() noexcept { times_.clear(); }
  [[nodiscard]] std::size_t rows() const noexcept { return times_.size(); }
  [[nodiscard]] bool full() const noexcept { return rows() == max_rows_; }
  [[nodiscard]] std::span<const std::int64_t> times() const noexcept { return times_; }

  /// Opens a row in which no family is present yet. Only when not full().
  void begin_row(std::int64_t time_ns) noexcept;
  /// Whether the family, or every one of the axis, is in the last row.
  [[nodiscard]] bool present(std::size_t family) const noexcept { return families_[family].present[rows() - 1] != 0; }
  [[nodiscard]] bool row_complete() const noexcept;
  /// The family's part of the last row, now present: width() values for the caller to fill.
  [[nodiscard]] std::span<std::int64_t> fill_row(std::size_t family) noexcept;

  [[nodiscard]] bool present(std::size_t family, std::size_t row) const noexcept {
    return families_[family].present[row] != 0;
  }
  [[nodiscard]] std::span<const std::int64_t> row(std::size_t family, std::size_t row) const noexcept {
    const Part& part = families_[family];
    return std::span(part.values).subspan(row * part.width, part.width);
  }
  [[nodiscard]] std::size_t rows_present(std::size_t family) const noexcept;

 private:
  struct Part {
    std::size_t width = 0;
    std::int64_t missing = kMissing;
    std::vector<std::int64_t> values;   // [row][channel]
    std::vector<std::uint8_t> present;  // [row]
  };

  std::size_t max_rows_;
  std::vector<std::int64_t> times_;
  std::vector<Part> families_;
};

/// A chunk as the file holds it: values [channel][row] and, for increments, the absolute base per channel: the value
/// that the chunk's first increment counts from (for a channel seen for the first time: its first value).
struct EncodedRows {
  std::vector<std::int64_t> values;
  std::vector<std::int64_t> bases;
};

/// The increment to `value`, which takes the place of `previous` (kMissing: none yet); missing for a first value, and
/// for one that went back (wrap, reset).
[[nodiscard]] inline std::int64_t take_increment(std::int64_t value, std::int64_t& previous) noexcept {
  std::int64_t increment = 0;
  const bool counted = previous != kMissing && !__builtin_sub_overflow(value, previous, &increment) && increment >= 0;
  previous = value;
  return counted ? increment : kMissing;
}

/// Increments of the absolute values in `buffer`. `previous` is the last value known per channel (kMissing: none yet)
/// and is carried from chunk to chunk, so that after a gap the increment covers the gap. `previous` grows with
/// `channels`.
void encode_increments(const RowBuffer& buffer, std::size_t family, std::size_t channels,
                       std::vector<std::int64_t>& previous, EncodedRows& out);

/// Levels as they are; `missing` (the bits of NaN, or kMissing) where the family is not present.
void encode_levels(const RowBuffer& buffer, std::size_t family, std::size_t channels, std::int64_t missing,
                   EncodedRows& out);

/// The inverse of encode_increments for one chunk and one channel: absolute values, kMissing where unknown.
/// `next_base` is the channel's base in the following chunk (kMissing: there is none): from it, values behind a reset
/// are counted back. `first_chunk`: no earlier chunk has a base for this channel.
void decode_absolute(std::span<const std::int64_t> increments, std::int64_t base, std::int64_t next_base,
                     bool first_chunk, std::span<std::int64_t> absolute);

}  // namespace reveal
