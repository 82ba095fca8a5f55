// The samples of one block of a job that memory cannot hold, in memory that the blocks after it use again, also those
// of other nodes: to get fresh memory from the kernel, page by page, takes longer than to write it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "postproc/telemetry/telemetry.h"

namespace reveal {

class WindowPool;

class SampleWindow {
 public:
  SampleWindow() = default;
  /// `like`: node, step and channels of the job; `samples`, at least 1, of `factor` of the job's own each.
  SampleWindow(WindowPool& pool, const Telemetry& like, std::size_t factor, std::size_t samples);

  /// Sets samples of a channel from `at` on. Samples that are never put are undefined.
  void put(std::size_t channel, std::size_t at, std::span<const double> values);
  /// The last so many samples become the first ones.
  void keep_last(std::size_t samples);
  [[nodiscard]] const Telemetry& telemetry() const { return telemetry_; }

 private:
  friend class WindowPool;
  /// A channel of zeros takes no memory as long as no window had anything else in its place.
  enum class Row : std::uint8_t { zeros, written, of_other_window };

  Telemetry telemetry_;
  std::vector<Row> rows_;  // as many as the memory holds
};

/// Windows that are no longer read. May be used by several threads.
class WindowPool {
 public:
  void give(SampleWindow window);
  void free_all();

 private:
  friend class SampleWindow;
  /// Returns a window whose memory holds so many values, if possible in rows of so many samples. If there is none, all
  /// others are freed.
  SampleWindow take(std::size_t values, std::size_t samples);

  std::mutex mutex_;
  std::vector<SampleWindow> windows_;
};

}  // namespace reveal
