#include "hdf5schema/row_buffer.h"

#include <algorithm>

namespace reveal {

RowBuffer::RowBuffer(std::size_t max_rows) : max_rows_(max_rows) {
  times_.reserve(max_rows);
}

void RowBuffer::add_family(std::size_t width, std::int64_t missing) {
  families_.push_back({.width = width, .missing = missing, .offset = stride_});
  stride_ += width;
}

void RowBuffer::lay_out() {
  present_.assign(max_rows_ * families_.size(), std::uint8_t{0});
  shared_.reserve(max_rows_ * stride_);
  for (std::size_t row = 0; row < max_rows_; ++row) {
    for (const Part& part : families_) shared_.insert(shared_.end(), part.width, part.missing);
  }
}

void RowBuffer::widen(std::size_t family, std::size_t width) {
  Part& part = families_[family];
  if (width <= part.width) return;
  std::vector<std::int64_t> wider(width * max_rows_, part.missing);
  for (std::size_t each = 0; each < rows(); ++each) {
    const std::span<const std::int64_t> narrow = row(family, each);
    std::copy(narrow.begin(), narrow.end(), wider.begin() + static_cast<std::ptrdiff_t>(each * width));
  }
  part.own = std::move(wider);
  part.width = width;
}

void RowBuffer::begin_row(std::int64_t time_ns) noexcept {
  const std::size_t row = rows();
  times_.push_back(time_ns);  // within the reserved space
  std::fill_n(present_.begin() + static_cast<std::ptrdiff_t>(row * families_.size()), families_.size(), std::uint8_t{0});
}

bool RowBuffer::row_complete() const noexcept {
  const auto* last = present_.data() + (rows() - 1) * families_.size();
  return std::all_of(last, last + families_.size(), [](std::uint8_t present) { return present != 0; });
}

std::span<std::int64_t> RowBuffer::fill_row(std::size_t family) noexcept {
  Part& part = families_[family];
  const std::size_t row = rows() - 1;
  present_[row * families_.size() + family] = 1;
  return {(part.own.empty() ? shared_.data() : part.own.data()) + at(part, row), part.width};
}

std::size_t RowBuffer::rows_present(std::size_t family) const noexcept {
  std::size_t count = 0;
  for (std::size_t row = 0; row < rows(); ++row) count += present(family, row) ? 1 : 0;
  return count;
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
