// A trace read piece by piece, for jobs that memory cannot hold: the same grid and the same values as at once.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

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

  /// All but the values: telemetry.samples is 0.
  [[nodiscard]] const NodeTrace& trace() const;
  [[nodiscard]] std::size_t samples() const;

  /// Samples [begin, begin + count). The first time through, pieces must follow each other without a hole: whether a
  /// counter's first increment in a piece is its first ever is known only from what came before.
  [[nodiscard]] Telemetry read(std::size_t begin, std::size_t count);
  /// The same into a piece that was read before, or an empty one.
  void read(std::size_t begin, std::size_t count, Telemetry& piece);

 private:
  friend NodeTrace held(TraceStream& stream);
  /// All but the derived channels.
  void read_measured(std::size_t begin, std::size_t count, Telemetry& piece);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// All of it in memory. Throws Error where that is more than any machine has.
[[nodiscard]] NodeTrace held(TraceStream& stream);

}  // namespace reveal
