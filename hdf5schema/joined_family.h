// One family of a trace, and of the trace that it continues, as one sequence of rows: the input of a rewrite.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hdf5schema/trace_reader.h"

namespace reveal {

class JoinedFamily {
 public:
  /// `newest`: with all channels. Both must outlive this.
  JoinedFamily(const TraceReader& reader, const TraceReader::Family& newest);

  /// Prepends the earlier rows, without chunks that end before `keep_from_ns`. The chunks of that trace must all be
  /// full, as in a trace that another continues; otherwise throws Error.
  void prepend(const TraceReader& reader, const TraceReader::Family& earlier, std::int64_t keep_from_ns);

  [[nodiscard]] const TraceReader::Family& newest() const noexcept { return *pieces_.back().family; }
  [[nodiscard]] std::size_t channels() const noexcept { return newest().channels.size(); }
  [[nodiscard]] std::size_t rows() const noexcept;
  [[nodiscard]] std::size_t chunks() const noexcept;
  [[nodiscard]] std::size_t rows_per_chunk() const noexcept { return pieces_.back().width; }
  [[nodiscard]] std::span<const std::int64_t> times() const noexcept;

  /// [channel][row] as stored; float64 as their bits.
  [[nodiscard]] std::vector<std::int64_t> read(std::size_t first, std::size_t count) const;
  /// The same as TraceReader::read() has it.
  void read(std::size_t first, std::size_t count, std::vector<double>& values) const;
  /// Bases of `count` chunks in one: the absolute value before their first row, or the channel's first one.
  [[nodiscard]] std::vector<std::int64_t> bases(std::size_t first_chunk, std::size_t count) const;

 private:
  struct Piece {
    const TraceReader* reader;
    const TraceReader::Family* family;
    std::size_t width;  // rows of a chunk
    std::size_t first_chunk = 0;
    mutable TraceReader::Bases bases = {};  // those that were read last
    void read_bases(std::size_t first, std::size_t count) const;
    [[nodiscard]] std::size_t first_row() const noexcept { return first_chunk * width; }
    [[nodiscard]] std::size_t rows() const noexcept { return family->time_ns.size() - first_row(); }
    [[nodiscard]] std::size_t chunks() const noexcept {
      return (family->time_ns.size() + width - 1) / width - first_chunk;
    }
  };
  std::vector<Piece> pieces_;        // oldest first
  std::vector<std::int64_t> times_;  // times of several pieces
};

}  // namespace reveal
