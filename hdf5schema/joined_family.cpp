#include "hdf5schema/joined_family.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "hdf5schema/basics/error.h"
#include "hdf5schema/layout.h"

namespace reveal {
namespace {

std::vector<std::int64_t> stored_bits(const TraceReader& reader, const TraceReader::Family& family, std::size_t first,
                                      std::size_t count) {
  if (!stored_as_real(family.spec)) return reader.read_stored(family, first, count);
  const std::vector<double> reals = reader.read(family, first, count);
  std::vector<std::int64_t> bits(reals.size());
  std::transform(reals.begin(), reals.end(), bits.begin(),
                 [](double real) { return std::bit_cast<std::int64_t>(real); });
  return bits;
}

}  // namespace

JoinedFamily::JoinedFamily(const TraceReader& reader, const TraceReader::Family& newest) {
  pieces_.push_back({&reader, &newest, reader.rows_per_chunk(newest)});
}

void JoinedFamily::prepend(const TraceReader& reader, const TraceReader::Family& earlier, std::int64_t keep_from_ns) {
  const std::size_t width = reader.rows_per_chunk(earlier);
  Piece piece{&reader, &earlier, width};
  const std::span<const std::int64_t> before = earlier.time_ns;
  const auto kept = std::lower_bound(before.begin(), before.end(), keep_from_ns);
  piece.first_chunk = static_cast<std::size_t>(kept - before.begin()) / width;
  if (piece.chunks() == 0) return;
  if (width != rows_per_chunk() || before.size() % width != 0 || earlier.spec.path != newest().spec.path ||
      earlier.channels.size() > channels())
    throw Error(earlier.spec.path + ": does not continue where it was cut");
  const auto after = times();
  std::vector<std::int64_t> all(before.begin() + static_cast<std::ptrdiff_t>(piece.first_row()), before.end());
  all.insert(all.end(), after.begin(), after.end());
  times_ = std::move(all);
  pieces_.insert(pieces_.begin(), std::move(piece));
}

std::size_t JoinedFamily::rows() const noexcept {
  std::size_t rows = 0;
  for (const Piece& piece : pieces_) rows += piece.rows();
  return rows;
}

std::size_t JoinedFamily::chunks() const noexcept {
  std::size_t chunks = 0;
  for (const Piece& piece : pieces_) chunks += piece.chunks();
  return chunks;
}

std::span<const std::int64_t> JoinedFamily::times() const noexcept {
  return pieces_.size() == 1 ? newest().time_ns : std::span<const std::int64_t>(times_);
}

std::vector<std::int64_t> JoinedFamily::read(std::size_t first, std::size_t count) const {
  if (pieces_.size() == 1)
    return stored_bits(*pieces_[0].reader, *pieces_[0].family, pieces_[0].first_row() + first, count);
  const bool real = stored_as_real(newest().spec);
  const std::int64_t missing = real ? std::bit_cast<std::int64_t>(std::numeric_limits<double>::quiet_NaN()) : kMissing;
  std::vector<std::int64_t> values(channels() * count, missing);
  std::size_t begin = 0;  // begin of the piece, in rows of all
  for (const Piece& piece : pieces_) {
    const std::size_t from = std::max(first, begin);
    const std::size_t to = std::min(first + count, begin + piece.rows());
    if (from < to) {
      const std::vector<std::int64_t> part =
          stored_bits(*piece.reader, *piece.family, piece.first_row() + from - begin, to - from);
      for (std::size_t channel = 0; channel < piece.family->channels.size(); ++channel)
        std::copy_n(part.data() + channel * (to - from), to - from, values.data() + channel * count + from - first);
    }
    begin += piece.rows();
  }
  return values;
}

void JoinedFamily::read(std::size_t first, std::size_t count, std::vector<double>& values) const {
  if (pieces_.size() == 1)
    return pieces_[0].reader->read(*pieces_[0].family, pieces_[0].first_row() + first, count, values);
  const std::vector<std::int64_t> stored = read(first, count);
  const bool real = stored_as_real(newest().spec);
  values.resize(stored.size());
  std::transform(stored.begin(), stored.end(), values.begin(), [real](std::int64_t value) {
    if (real) return std::bit_cast<double>(value);
    return value == kMissing ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(value);
  });
}

/// Keeps only the bases read last: those of weeks are hundreds of megabytes.
void JoinedFamily::Piece::read_bases(std::size_t first, std::size_t count) const {
  if (first >= bases.first && first + count <= bases.first + bases.chunks) return;
  bases = reader->read_bases(*family, first, count);
}

std::vector<std::int64_t> JoinedFamily::bases(std::size_t first_chunk, std::size_t count) const {
  std::vector<std::int64_t> merged(channels(), kMissing);
  std::size_t begin = 0;  // begin of the piece, in chunks of all
  for (const Piece& piece : pieces_) {
    const std::size_t from = std::max(first_chunk, begin);
    const std::size_t to = std::min(first_chunk + count, begin + piece.chunks());
    if (from < to) {
      const std::size_t first = piece.first_chunk + from - begin;
      piece.read_bases(first, to - from);
      const TraceReader::Bases& bases = piece.bases;
      for (std::size_t channel = 0; channel < piece.family->channels.size(); ++channel) {
        for (std::size_t chunk = first; chunk < first + to - from && merged[channel] == kMissing; ++chunk)
          merged[channel] = bases.values[channel * bases.chunks + chunk - bases.first];
      }
    }
    begin += piece.chunks();
  }
  return merged;
}

}  // namespace reveal
