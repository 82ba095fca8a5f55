// Reads a trace of any released schema version, closed or cut off (`.part`), from any writer. Every refusal is one
// Error line; a part that is damaged is left out, and damages() names it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hdf5schema/sampled_collective.h"
#include "hdf5schema/trace.h"
#include "hdf5schema/training_step.h"

namespace reveal {

class TraceReader {
 public:
  /// all: every chunk of every family is looked at, which takes as long as reading the file once. names: only
  /// the families and their times; for readers of the newest rows of a file that grows.
  enum class Check : std::uint8_t { all, names };

  /// Throws Error: not HDF5, HDF5 but not a trace, newer schema, cut off before the first flush.
  explicit TraceReader(const std::filesystem::path& path, Check check = Check::all);
  ~TraceReader();
  TraceReader(TraceReader&&) noexcept;
  TraceReader& operator=(TraceReader&&) noexcept;

  struct Family {
    FamilySpec spec;
    std::vector<ChannelKey> channels;
    std::span<const std::int64_t> time_ns;  // monotonic, strictly increasing; shared by families, the reader's own
  };

  /// A part that is left out.
  struct Damage {
    std::string part;    // "storage/kernel_objects"
    std::string reason;  // "the checksum of a chunk is wrong"
    FamilySpec spec = {};
    std::vector<ChannelKey> channels =
        {};  // channels with lost values; none: they could not be named, or it is no family
    [[nodiscard]] std::string text() const { return part + ": " + reason; }
  };

  [[nodiscard]] const TraceHeader& header() const noexcept;
  [[nodiscard]] bool complete() const noexcept;  // false: the collector did not close it
  [[nodiscard]] const std::vector<Family>& families() const noexcept;
  [[nodiscard]] const std::vector<Damage>& damages() const noexcept;
  [[nodiscard]] std::vector<Event> events() const;
  /// The rows of a table of row_tables.h, in the order of recording; none in traces of earlier versions.
  template <class Row>
  [[nodiscard]] std::vector<Row> table() const;
  [[nodiscard]] std::vector<TrainingStep> steps() const { return table<TrainingStep>(); }
  [[nodiscard]] std::vector<SampledCollective> collectives() const { return table<SampledCollective>(); }
  /// The same piece by piece: there may be millions.
  template <class Row>
  void read_table(const std::function<void(std::span<const Row>)>& take) const;
  /// How many there are; 0 also where their table cannot be read.
  template <class Row>
  [[nodiscard]] std::size_t table_size() const;
  [[nodiscard]] std::vector<ClockPair> clocks() const;
  [[nodiscard]] std::vector<Coverage> coverage() const;
  [[nodiscard]] Snapshot snapshot_begin() const;
  [[nodiscard]] Snapshot snapshot_end() const;  // only changed facts
  [[nodiscard]] std::string topology_xml() const;

  /// All rows of a family, [channel][time] channel-major: increments for counters, levels else; NaN where missing.
  [[nodiscard]] std::vector<double> read(const Family& family) const;
  /// The same of `rows` rows from `first` on.
  [[nodiscard]] std::vector<double> read(const Family& family, std::size_t first, std::size_t rows) const;
  /// The same in memory that is used again.
  void read(const Family& family, std::size_t first, std::size_t rows, std::vector<double>& values) const;
  /// Absolute counter values instead of increments, [channel][time]; kMissing where missing.
  [[nodiscard]] std::vector<std::int64_t> read_absolute(const Family& family) const;

  [[nodiscard]] std::size_t rows_per_chunk(const Family& family) const;
  /// As the file has them, [channel][time]: increments of counters, levels else; kMissing where missing. Not for
  /// float64 families.
  [[nodiscard]] std::vector<std::int64_t> read_stored(const Family& family) const;
  [[nodiscard]] std::vector<std::int64_t> read_stored(const Family& family, std::size_t first, std::size_t rows) const;
  /// The absolute values from which the chunks of counters count.
  struct Bases {
    std::size_t rows_per_chunk = 1;
    std::size_t first = 0;  // chunk
    std::size_t chunks = 0;
    std::vector<std::int64_t> values;  // [channel][chunk]
  };
  [[nodiscard]] Bases read_bases(const Family& family) const;
  /// The bases of `least` chunks from `first` on, and of the next ones as far as all fit into a megabyte.
  [[nodiscard]] Bases read_bases(const Family& family, std::size_t first, std::size_t least) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Whether the file was cut off before the first row could be in it.
[[nodiscard]] bool never_started(const std::filesystem::path& part) noexcept;

}  // namespace reveal
