// The HDF5 side of writing: creates the file, grows its datasets, one chunk at a time. Uses no threads and no buffers;
// TraceWriter and recover() stand on it. Every call may throw Error, after which the file must not be written again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5schema/layout.h"
#include "hdf5schema/row_tables.h"
#include "hdf5schema/trace.h"

namespace reveal {

template <class Row>
struct RowCount {
  std::size_t rows = 0;
};
/// How many rows the tables of a file will have, if that is known.
struct TableSizes {
  std::size_t events = 0;
  RowTables<RowCount> tables = {};
};

class TraceFile {
 public:
  /// live: start() turns SWMR mode on, and everything flushed from then on can be read after a crash. recovered: the
  /// same, after the job. closed: for a rewrite, which is thrown away if it does not come to its end.
  enum class Form { live, recovered, closed };

  /// Creates `path`, which must not exist. Messages name `path`.
  /// With a `group` ("nodes/n03"), `path` exists, and the trace becomes that group of it (closed only).
  TraceFile(const std::filesystem::path& path, const TraceHeader& header, Form form = Form::live, TableSizes sizes = {},
            const std::string& group = "");
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // Before start().
  std::size_t add_axis(const std::string& name, std::size_t rows_per_chunk);
  /// `channels`: the final number, if the file is closed.
  std::size_t add_family(const FamilySpec& spec, std::size_t axis, std::size_t channels_per_chunk,
                         std::optional<std::size_t> channels = {});
  void write_snapshot(const Snapshot& begin, std::string_view topology_xml);
  void start();

  /// Rows of keys from `first` on; a table grows as needed.
  void write_channels(std::size_t family, std::size_t first, std::span<const ChannelKey> keys);
  void write_times(std::size_t axis, std::span<const std::int64_t> times);
  /// The next rows of a family, [channel][rows] as stored; `bases`: one per channel, empty unless increments. Rows must
  /// fill whole chunks except at the very end of the file. `values` is int64, or float64 where stored_as_real().
  void write_rows(std::size_t family, std::size_t channels, std::size_t rows, const void* values,
                  std::span<const std::int64_t> bases);
  void write_events(std::span<const EventRecord> events);
  template <class Row>
  void write_table(std::span<const RowRecord<Row>> rows);
  void write_clocks(std::span<const ClockPair> clocks);
  void write_coverage(std::span<const Coverage> coverage);
  void write_end_snapshot(const Snapshot& end);
  void flush();
  /// Ends the file; TraceReader::complete() will return `complete`. Throws Error also if the file is shorter than the
  /// data written into it.
  void close(bool complete);
  /// Messages name this path from now on.
  void was_renamed(const std::filesystem::path& path);

  /// The part of a family that a reader of the closed file must find.
  struct Written {
    std::string path;
    std::size_t channels = 0;
    std::size_t rows = 0;
    std::size_t rows_at_once = 0;  // rows in each call of write_rows() but the last one
    std::uint32_t checksum = 0;    // over the values and the bases of each call
  };
  /// Returns the written part of each family, in the order of add_family(); not of a live file.
  [[nodiscard]] const std::vector<Written>& written() const noexcept;
  [[nodiscard]] static std::uint32_t checksum(std::span<const std::int64_t> values, std::uint32_t before) noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reveal
