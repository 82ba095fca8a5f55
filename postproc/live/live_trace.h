// Follows the trace of one node while its collector writes it: flushed rows through HDF5's SWMR mode, the newest ones
// from NODE.h5.live where the collector answers to the marker (hdf5schema/live_rows.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "hdf5schema/live_rows.h"
#include "postproc/telemetry/programs.h"
#include "postproc/telemetry/row_store.h"

namespace reveal {

enum class LiveState : std::uint8_t {
  waiting,   // no row yet
  catching,  // rows come, but none that is younger than the last flush
  live,
  silent,  // nothing for a while: the node or the collector may be gone
  closed,  // the collector has ended the trace
};
[[nodiscard]] std::string_view name_of(LiveState state);
[[nodiscard]] std::optional<LiveState> live_state_of(std::string_view name);

class LiveTrace {
 public:
  /// `trace`: NODE.h5, be it there, still NODE.h5.part, or neither yet.
  LiveTrace(std::filesystem::path trace, std::chrono::nanoseconds keep);
  /// Takes the marker away.
  ~LiveTrace();
  LiveTrace(const LiveTrace&) = delete;
  LiveTrace& operator=(const LiveTrace&) = delete;

  /// Takes new data. Never throws: data that cannot be read now is tried again, and problem() is the reason.
  void poll(std::chrono::steady_clock::time_point now);

  [[nodiscard]] LiveState state() const { return state_; }
  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] double silent_seconds(std::chrono::steady_clock::time_point now) const;
  [[nodiscard]] const TraceHeader& header() const { return header_; }
  /// A file's name: that in the trace, or else the trace's own.
  [[nodiscard]] const std::string& node() const { return header_.node; }
  [[nodiscard]] const RowStore& rows() const { return rows_; }
  /// Sets the programs of channels of processes. Reads the events that were flushed: for rare news only.
  void name_programs(EventSpan at, std::span<Channel> channels);
  /// The events with the newest collectives of processes (last_collectives.h). Reads the events that were flushed, too.
  [[nodiscard]] std::span<const Event> collective_events();
  /// The begin of the recording on the steady clock; its rows may begin later.
  [[nodiscard]] std::int64_t begin_ns() const { return begin_ns_; }
  [[nodiscard]] std::int64_t utc_minus_monotonic_ns() const { return offset_ns_; }
  [[nodiscard]] std::int64_t utc_of(std::int64_t monotonic_ns) const { return monotonic_ns + offset_ns_; }
  [[nodiscard]] std::optional<LiveBlock> block(std::int64_t until_ns = 0,
                                               std::span<const std::string_view> paths = {}) const {
    return rows_.block(header_, offset_ns_, until_ns, paths);
  }

 private:
  using Time = std::chrono::steady_clock::time_point;
  void request_rows(Time now);
  [[nodiscard]] bool worth_opening(Time now);
  void read_trace(const std::filesystem::path& path);
  void take_early_rows();
  void read_process_events();

  std::filesystem::path trace_;
  std::filesystem::path part_;
  LiveRowsReader early_;
  RowStore rows_;
  TraceHeader header_;
  std::int64_t offset_ns_ = 0;  // utc - monotonic, as utc_offset_ns() has it: times do not move when a clock is set
  std::int64_t begin_ns_ = 0;
  bool opened_ = false;
  bool answered_ = false;  // the collector shows its rows
  bool marked_ = false;
  LiveState state_ = LiveState::waiting;
  std::string problem_;
  std::filesystem::file_time_type written_{};  // the .part's when it was read last; its size is reserved in advance
  bool again_ = false;  // that flush may not have been over, and its end need not change the time: a tick has 4 ms
  std::vector<Event> process_events_;
  std::vector<Event> collective_events_;
  std::int64_t events_until_ns_ = 0;  // monotonic; later ones were not flushed yet
  std::filesystem::file_time_type events_written_{};
  Time next_open_{};
  Time next_mark_{};
  std::optional<Time> last_row_;
  std::int64_t newest_ns_ = 0;
};

}  // namespace reveal
