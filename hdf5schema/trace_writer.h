// Writes one node's trace while it is recorded. The file is `PATH.part` until close(), in SWMR mode from start() on:
// whatever was flushed before a crash can be read. `append_*` neither block nor allocate; a thread inside writes
// chunks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "hdf5schema/rewrite.h"
#include "hdf5schema/sampled_collective.h"
#include "hdf5schema/trace.h"
#include "hdf5schema/training_step.h"

namespace reveal {

struct TraceLimits {
  std::uint64_t max_bytes = 0;    // 0: no cap. Beyond it rows are counted as lost, the job and the trace stay whole.
  std::uint64_t max_flushes = 0;  // likewise; 0: as many as a file holds
  std::chrono::milliseconds flush_jitter{0};  // at most; drawn once, so that nodes do not flush together
  Retention retention = {};
  bool waits =
      false;  // for the disk, instead of losing rows: a replay is faster than the time in which it was recorded
};

/// One thread calls everything but status(), which any thread may call.
class TraceWriter {
 public:
  using Limits = TraceLimits;

  /// Creates PATH.part (never overwrites a PATH or PATH.part that exists: throws Error).
  TraceWriter(const std::filesystem::path& path, const TraceHeader& header, Limits limits = {});
  ~TraceWriter();  // closes without renaming if close() was not called
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  using FamilyId = std::uint32_t;
  using ChannelId = std::uint32_t;

  /// Only before start(): under SWMR a dataset created later would be lost.
  FamilyId add_family(const FamilySpec& spec);
  /// So many channels of the family are likely to be added after start(): chunks are that much wider from the
  /// beginning. A row of chunks that begins later costs 64 KiB of index, whatever is in it.
  void expect_channels(FamilyId family, std::size_t later);
  /// Adds a channel at any time. Returns its index within the family. `before`: the value that the first increment of a
  /// counter counts from, where it is known; otherwise that is its first value.
  ChannelId add_channel(FamilyId family, ChannelKey key, std::int64_t before = kMissing);
  /// Stays where it is. For the thread that adds channels and ends them.
  [[nodiscard]] const ChannelKey& key(FamilyId family, ChannelId channel) const;
  void channel_died(FamilyId family, ChannelId channel, std::int64_t time_ns);
  void set_coverage(std::span<const Coverage> coverage);  // before start(), and again before close() if it changed
  void set_snapshot(const Snapshot& begin, std::string_view topology_xml);  // before start()
  void set_end_snapshot(const Snapshot& end);                               // before close(); only differences are kept
  void start();

  /// One row: the value of every channel of the family, in channel order, as the kernel reports it (counters absolute);
  /// kMissing / NaN where unknown. A short row leaves the rest missing. False if it was lost (the writer is behind, or
  /// the time is not after the last row's). Families of one period and clock share their rows: call it with one time
  /// per tick; a time within half a period of the open row joins that row.
  bool append_row(FamilyId family, std::int64_t time_ns, std::span<const std::int64_t> values) noexcept;
  bool append_row(FamilyId family, std::int64_t time_ns, std::span<const double> values) noexcept;
  void append_event(const Event& event);
  /// If more come between two flushes than fit, an event has the number of lost ones.
  void append_step(const TrainingStep& step) noexcept;
  /// Likewise.
  void append_collective(const SampledCollective& collective) noexcept;
  void append_clock(const ClockPair& pair) noexcept;

  /// Whether rows get into the file. A disk that is full now may have space again later; what is over stays so.
  enum class Writing : std::uint8_t { goes_on, fails_now, is_over };
  struct Status {
    std::uint64_t bytes = 0;  // size of the file so far
    std::uint64_t rows = 0;   // appended
    std::uint64_t rows_lost = 0;
    std::uint64_t channels = 0;
    std::int64_t flushed_until_ns = 0;
    Writing writing = Writing::goes_on;
    std::string failure;        // the last one: "" or one line: "no space left on device"
    std::string not_rewritten;  // after close(): "" or why the trace stays as it was recorded, and whole
  };
  [[nodiscard]] Status status() const;

  /// Writes the buffered rows. Rows that come later are lost; everything else can still be added until close().
  void end_rows();
  /// Ends the rows, closes, renames PATH.part to PATH, and replaces it by a smaller file where it is worth that. Throws
  /// Error if the file could not be completed; earlier flushed rows stay readable in PATH.part.
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reveal
