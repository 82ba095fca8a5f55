// A trace read piece by piece, or as one piece that is the whole job: the same grid and the same values.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "postproc/telemetry/load.h"
#include "postproc/telemetry/telemetry.h"

namespace reveal {

class TraceStream {
 public:
  /// Throws Error with one line when the file is not a trace this version can read.
  explicit TraceStream(const std::filesystem::path& path);
  ~TraceStream();
  TraceStream(const TraceStream&) = delete;
  TraceStream& operator=(const TraceStream&) = delete;

  /// All but the values: telemetry.samples is 0. Stays when the stream is closed.
  [[nodiscard]] const NodeTrace& trace() const&;
  /// The same, moved out; the stream cannot be used any more.
  [[nodiscard]] NodeTrace trace() &&;
  /// The description of a family, "Memory by use (/proc/meminfo)"; "" where the trace has none.
  [[nodiscard]] std::string long_name(std::string_view family) const;
  /// Training steps and collectives, of which there may be millions: trace() has none before they are read, once and
  /// before close().
  void read_tables();
  template <class Row>
  [[nodiscard]] std::size_t table_size() const;
  [[nodiscard]] std::size_t samples() const;

  /// Samples [begin, begin + count). The first time through, pieces must follow each other without a hole: whether a
  /// counter's first increment in a piece is its first ever is known only from earlier pieces.
  [[nodiscard]] Telemetry read(std::size_t begin, std::size_t count);
  /// The same into a piece that was read before, or an empty one.
  /// Throws Error where the piece is larger than any machine could hold.
  void read(std::size_t begin, std::size_t count, Telemetry& piece);
  /// Nothing is read any more: frees the last piece, which is as large as a part of the trace.
  void close();

 private:
  /// All but the derived channels.
  void read_measured(std::size_t begin, std::size_t count, Telemetry& piece);
  [[nodiscard]] RowsOf rows_around(std::size_t begin, std::size_t count);
  void read_in_parts(std::size_t begin, std::size_t count, std::size_t at_once, Telemetry& piece);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reveal
