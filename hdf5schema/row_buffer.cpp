#include "hdf5schema/row_buffer.h"

#include <algorithm>

namespace reveal {

RowBuffer::RowBuffer(std::size_t max_rows) : max_rows_(max_rows) {
  times_.reserve(max_rows);
}

void RowBuffer::add_family(std::size_t width, std::int64_t missing) {
  families_.push_back({.width = width,
                       .missing = missing,
                       .values = std::vector<std::int64_t>(width * max_rows_, missing),
                       .present = std::vector<std::uint8_t>(max_rows_, 0)});
}

void RowBuffer::widen(std::size_t family, std::size_t width) {
  Part& part = families_[family];
  if (width <= part.width) return;
  std::vector<std::int64_t> wider(width * max_rows_, part.missing);
  for (std::size_t row = 0; row < rows(); ++row) {
    std::copy_n(part.values.begin() + static_cast<std::ptrdiff_t>(row * part.width), part.width,
                wider.begin() + static_cast<std::ptrdiff_t>(row * width));
  }
  part.values = std::move(wider);
  part.width = width;
}

void RowBuffer::begin_row(std::int64_t time_ns) noexcept {
  const std::size_t row = rows();
  times_.push_back(time_ns);  // within the reserved space
  for (Part& part : families_) part.present[row] = 0;
}

bool RowBuffer::row_complete() const noexcept {
  return std::all_of(families_.begin(), families_.end(),
                     [last = rows() - 1](const Part& part) { return part.present[last] != 0; });
}

std::span<std::int64_t> RowBuffer::fill_row(std::size_t family) noexcept {
  Part& part = families_[family];
  const std::size_t row = rows() - 1;
  part.present[row] = 1;
  return std::span(part.values).subspan(row * part.width, part.width);
}

std::size_t RowBuffer::rows_present(std::size_t family) const noexcept {
  const auto& present = families_[family].present;
  return static_cast<std::size_t>(
      std::count(present.begin(), present.begin() + static_cast<std::ptrdiff_t>(rows()), 1));
}

void encode_increments(const RowBuffer& buffer, std::size_t family, std::size_t channels,
                       std::vector<std::int64_t>& previous, EncodedRows& out) {
  const std::size_t rows = buffer.rows();
  previous.resize(std::max(previous.size(), channels), kMissing);
  out.values.assign(channels * rows, kMissing);
  out.bases.assign(previous.begin(), previous.begin() + static_cast<std::ptrdiff_t>(channels));
  for (std::size_t row = 0; row < rows; ++row) {
    if (!buffer.present(family, row)) continue;
    const std::span<const std::int64_t> values = buffer.row(family, row);
    for (std::size_t channel = 0; channel < channels; ++channel) {
      const std::int64_t value = values[channel];
      if (value == kMissing) continue;
      if (previous[channel] == kMissing) out.bases[channel] = value;
      out.values[channel * rows + row] = take_increment(value, previous[channel]);
    }
  }
}

void encode_levels(const RowBuffer& buffer, std::size_t family, std::size_t channels, std::int64_t missing,
                   EncodedRows& out) {
  const std::size_t rows = buffer.rows();
  out.values.assign(channels * rows, missing);
  out.bases.clear();
  for (std::size_t row = 0; row < rows; ++row) {
    if (!buffer.present(family, row)) continue;
    const std::span<const std::int64_t> values = buffer.row(family, row);
    for (std::size_t channel = 0; channel < channels; ++channel) out.values[channel * rows + row] = values[channel];
  }
}

void decode_absolute(std::span<const std::int64_t> increments, std::int64_t base, std::int64_t next_base,
                     bool first_chunk, std::span<std::int64_t> absolute) {
  std::fill(absolute.begin(), absolute.end(), kMissing);
  const std::size_t rows = increments.size();
  std::size_t row = 0;
  if (base != kMissing) {
    if (first_chunk) {
      // The first value has no increment of its own; it stands directly before the first increment.
      while (row < rows && increments[row] == kMissing) ++row;
      if (row > 0 && (row < rows || rows == 1)) absolute[row - 1] = base;
    }
    std::int64_t value = base;
    for (; row < rows && increments[row] != kMissing; ++row) {
      if (__builtin_add_overflow(value, increments[row], &value)) return;
      absolute[row] = value;
    }
  }
  if (row == rows || next_base == kMissing) return;
  // A missing increment is either a row without a value or a reset; the next base decides which.
  std::int64_t sum = 0;
  for (const std::int64_t increment : increments) {
    if (increment != kMissing && __builtin_add_overflow(sum, increment, &sum)) return;
  }
  std::int64_t end = 0;
  const bool unbroken = base != kMissing && !__builtin_add_overflow(base, sum, &end) && end == next_base;
  std::int64_t value = next_base;
  for (std::size_t i = rows; i > row; --i) {
    if (increments[i - 1] == kMissing) {
      if (unbroken) continue;
      return;
    }
    absolute[i - 1] = value;
    value -= increments[i - 1];
  }
}

}  // namespace reveal
